#!/bin/sh
# Makes .venv with the dependencies of a lock file (requirements.lock: what Muntin and its demo
# need; requirements-test.lock: also what tests and checks need) and Muntin itself. Safe to run
# again; does nothing where all is in place. Stops at once, with the remedy, where Python or Java
# is missing.
set -eu
cd "$(dirname "$0")/.."

fail() {
    printf '\n%s\n' "$1" >&2
    exit 1
}

java_remedy() {
    case "$(uname -s)" in
        Darwin) echo "brew install --cask temurin@17" ;;
        *)
            if command -v apt-get >/dev/null 2>&1; then echo "sudo apt-get install -y openjdk-17-jre-headless"
            elif command -v dnf >/dev/null 2>&1; then echo "sudo dnf install -y java-17-openjdk-headless"
            elif command -v pacman >/dev/null 2>&1; then echo "sudo pacman -S jre17-openjdk-headless"
            elif command -v apk >/dev/null 2>&1; then echo "sudo apk add openjdk17-jre-headless"
            elif command -v zypper >/dev/null 2>&1; then echo "sudo zypper install java-17-openjdk-headless"
            else echo "install OpenJDK 17 with your package manager"
            fi ;;
    esac
}

java_version() { # prints the major version, or nothing; macOS has a java that is only a stub
    command="java"
    [ -n "${JAVA_HOME:-}" ] && command="$JAVA_HOME/bin/java"
    "$command" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
}

java=$(java_version || true)
if [ -z "$java" ]; then
    fail "Spark needs Java 17 or newer, and none was found. Install it with:

    $(java_remedy)"
elif [ "$java" -lt 17 ]; then
    fail "Spark needs Java 17 or newer, and this is Java $java${JAVA_HOME:+ (JAVA_HOME=$JAVA_HOME)}. Install it with:

    $(java_remedy)"
fi

python=""
for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || fail "Muntin needs Python 3.11 to 3.14. Set PYTHON to one, for example: make demo PYTHON=/usr/bin/python3.12"

lock=${1:-requirements.lock}
stamp=.venv/.$lock
if [ -e "$stamp" ] && [ ! "$lock" -nt "$stamp" ] && [ ! pyproject.toml -nt "$stamp" ]; then
    exit 0
fi

# uv takes a fifth of pip's time. Where there is none, it comes into the environment first.
uv=$(command -v uv || echo .venv/bin/uv)
if [ "$uv" != .venv/bin/uv ]; then
    [ -x .venv/bin/python ] || "$uv" venv --quiet --python "$python" .venv
elif [ ! -x "$uv" ]; then
    wanted="install --quiet --require-hashes -r scripts/uv.lock"
    if ! { "$python" -m venv --without-pip .venv && "$python" -m pip --python .venv/bin/python $wanted; } 2>/dev/null; then
        "$python" -m venv .venv || fail "python3 -m venv failed. On Debian and Ubuntu: sudo apt-get install -y python3-venv"
        .venv/bin/python -m pip $wanted
    fi
fi
# PySpark is built from its sources: 450 MB of jars that need not be compressed for it
export DIST_EXTRA_CONFIG="${DIST_EXTRA_CONFIG:-$PWD/scripts/build.cfg}"
"$uv" pip install --quiet --python .venv/bin/python --no-deps --require-hashes -r "$lock"
"$uv" pip install --quiet --python .venv/bin/python --no-deps -e .
touch "$stamp"
