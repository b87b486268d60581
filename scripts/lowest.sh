#!/bin/sh
# Runs tests with the lowest versions that pyproject.toml allows (make lowest), in an environment
# of its own, .venv-lowest. What is given are pytest's words, instead of those below.
set -eu
cd "$(dirname "$0")/.."
uv=$(command -v uv || echo .venv/bin/uv)
folder=.venv-lowest
export DIST_EXTRA_CONFIG="${DIST_EXTRA_CONFIG:-$PWD/scripts/build.cfg}"

if [ ! -e "$folder/.done" ] || [ pyproject.toml -nt "$folder/.done" ]; then
    "$uv" venv --quiet --clear --python "${PYTHON:-python3}" "$folder"
    python=$("$folder/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    "$uv" pip compile --quiet --no-header --no-annotate --resolution lowest-direct \
        --python-version "$python" --extra all pyproject.toml -o "$folder/lowest.txt"
    # the tests' own tools as they are today
    "$uv" pip install --quiet --python "$folder/bin/python" --constraint "$folder/lowest.txt" \
        --group test -e '.[all]'
    touch "$folder/.done"
fi
[ $# -gt 0 ] || set -- tests -q -m "not chaos and not slow" -n 4 --dist loadfile --no-loadscope-reorder
exec "$folder/bin/python" -m pytest -p no:cacheprovider "$@"
