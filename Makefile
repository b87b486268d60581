# Two commands for a newcomer: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
export PYTHON
BIN := .venv/bin
UV = $$(command -v uv || echo $(BIN)/uv)

.PHONY: demo demo-kafka test test-fast check bench bench-check bounds characterize chaos lowest docs lock setup setup-demo clean

demo: setup-demo
	$(BIN)/muntin demo $(ARGS)

demo-kafka: setup-demo # needs Java and Maven
	$(BIN)/muntin demo --kafka $(ARGS)

# The tests start some hundred processes, and benchmarks time some: without bytecode each would
# compile all that it imports.
test chaos lowest bounds bench bench-check characterize: export PYTHONDONTWRITEBYTECODE :=

test: setup
	$(BIN)/python -m tests.java_classes & $(MAKE) check && wait
	HYPOTHESIS_PROFILE=ci $(BIN)/python -m pytest tests -q -m "not slow" -n 4 --dist loadfile --no-loadscope-reorder $(ARGS)

test-fast: setup
	$(BIN)/python -m pytest tests -q -m "not spark and not chaos and not slow" $(ARGS)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

# With new seeds each time: 10,000 random pipelines, 100,000 statements beside an oracle, as many
# reads while a pipeline writes, and as many hostile statements; and more than 200 kill -9. They take
# hours; for fewer set MUNTIN_PIPELINES, MUNTIN_STATEMENTS, MUNTIN_READS, MUNTIN_HOSTILE, and the
# three below. MUNTIN_SEED repeats a run.
chaos: export MUNTIN_KILLS ?= 50
chaos: export MUNTIN_LEDGER_KILLS ?= 40
chaos: export MUNTIN_STORE_KILLS ?= 20
chaos: setup
	$(BIN)/python -m tests.java_classes
	$(BIN)/python -m pytest tests -q -m "chaos or slow" --timeout 28800 $(ARGS)

lowest: setup # with the lowest versions of what Muntin depends on; some ten minutes
	PATH="$$PWD/$(BIN):$$PATH" sh scripts/lowest.sh $(ARGS)

# A kernel that reaches past the end of an array shows nothing, unless it is compiled like this.
bounds: export NUMBA_BOUNDSCHECK := 1
bounds: export NUMBA_CACHE_DIR := $(CURDIR)/.venv/bounds
bounds: setup
	$(BIN)/python -m pytest tests/summaries tests/segments tests/windows tests/kinds tests/topk tests/select \
		-q -m "not spark and not chaos and not slow" $(ARGS)

docs: setup # the site, in site/
	$(BIN)/python scripts/site.py

bench: setup
	for file in benchmarks/[a-z]*.py; do $(BIN)/python $$file || exit 1; done

# The short form of each that has a ratio, beside what benchmarks/results/ holds of it: some ten
# minutes. Without growth, scale, windows, topk, topk_spark, kafka_push, spark_format, ledger_stores
# and postgres_wire, which are beside nothing but forms of ours, and peers/streams, whose engines
# need an environment of their own.
BENCHMARKS := peers/quantiles peers/frequency peers/distinct peers/filters peers/sums peers/by_key \
	peers/sliding vector_matrix quantiles real_streams periodic select_speed questions kafka_json \
	live_stream shards fingerprint_index server_load sliding_windows steps
bench-check: .venv-peers/.done
	failed=0; for name in $(BENCHMARKS); do echo "== $$name"; \
		.venv-peers/bin/python benchmarks/$$name.py --check || failed=1; done; \
	.venv-peers/bin/python benchmarks/spark_streams.py --rows 3000000 --repeats 2 --heap 3g --only quantiles --check \
		|| failed=1; exit $$failed

.venv-peers/.done: pyproject.toml benchmarks/peers/requirements.txt # one asks for an older xxhash
	$(MAKE) setup
	$(UV) venv --quiet --clear --python $(PYTHON) .venv-peers
	DIST_EXTRA_CONFIG="$$PWD/scripts/build.cfg" $(UV) pip install --quiet --python .venv-peers/bin/python \
		--group test -r benchmarks/peers/requirements.txt
	touch $@

characterize: setup
	for file in benchmarks/characterize/[a-z]*.py; do $(BIN)/python $$file || exit 1; done

setup:
	@sh scripts/setup.sh requirements-test.lock

setup-demo:
	@sh scripts/setup.sh requirements.lock

LOCK := uv pip compile -c scripts/constraints.txt --universal --python-version 3.11 --generate-hashes --no-header --quiet
lock: # needs uv
	$(LOCK) pyproject.toml --extra demo --extra kafka --extra postgres --extra redis --no-emit-package muntin -o requirements.lock
	$(LOCK) pyproject.toml --extra all --group test --no-emit-package muntin -c requirements.lock \
		-o requirements-test.lock
	echo uv | $(LOCK) - -o scripts/uv.lock

clean:
	rm -rf .venv .venv-lowest .venv-peers .pytest_cache .ruff_cache .hypothesis
