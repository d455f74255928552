# Everything from nothing: `make test` in a fresh clone makes the environment (.venv), installs
# the packages and, for the tests that ask Spark, Java.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-peers

.PHONY: test test-long check format bench compare calibrate tables experiments demo clean java nats

TESTS := -n 3 --durations 25

test: $(READY) java nats
	$(BIN)/python -m pytest $(TESTS)

# The same tests with many more generated examples: before an issue is called resolved.
test-long: $(READY) java nats
	TOCSIN_PROFILE=long $(BIN)/python -m pytest $(TESTS)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) $(PEERS)/.ready java
	$(BIN)/python -m benchmarks.spine --out docs/benchmarks.md
	$(BIN)/python -m benchmarks.range_matching --out docs/benchmarks-range.md
	$(BIN)/python -m benchmarks.boolean_matching --out docs/benchmarks-boolean.md
	$(BIN)/python -m benchmarks.real_rules --out docs/benchmarks-real-rules.md
	$(BIN)/python -m benchmarks.planner --out docs/benchmarks-planner.md
	$(BIN)/python -m benchmarks.similarity --out docs/benchmarks-similarity.md
	$(BIN)/python -m benchmarks.uncertain --out docs/benchmarks-uncertain.md
	$(BIN)/python -m benchmarks.shapes --peers $(PEERS)/bin/python --out docs/benchmarks-shapes.md
	$(BIN)/python -m benchmarks.covering --out docs/benchmarks-covering.md
	$(BIN)/python -m benchmarks.moving --out docs/benchmarks-moving.md
	$(BIN)/python -m benchmarks.threads --out docs/benchmarks-threads.md
	$(BIN)/python -m benchmarks.spark_matching --out docs/benchmarks-spark.md
	$(BIN)/python -m benchmarks.similarity_spark --out docs/benchmarks-similarity-spark.md
	$(BIN)/python -m benchmarks.uncertain_spark --out docs/benchmarks-uncertain-spark.md
	$(BIN)/python -m benchmarks.moving_spark --out docs/benchmarks-moving-spark.md

# How much slower the working tree, or the commit NEW, is than the commit OLD:
# make compare OLD=main [NEW=HEAD] [ROWS="range spine/one-event"]
compare: $(READY) java
	$(BIN)/python -m benchmarks.compare $(OLD) $(NEW) $(if $(ROWS),--rows $(ROWS))

# What indexes are chosen by, measured here; with --write it becomes what is used.
calibrate: $(READY)
	$(BIN)/python -m benchmarks.calibrate

# The tables of indexes, functions and routing in documents, from what the code declares and does.
tables: $(READY)
	$(BIN)/python -m scripts.index_tables
	$(BIN)/python -m scripts.function_table
	$(BIN)/python -m scripts.routing_table

# The papers' own figures, measured again: PNGs and docs/experiments.md. About an hour.
experiments: $(READY)
	$(BIN)/python -m experiments

# Five minutes with Tocsin: a city's traffic on Spark, and a picture in tocsin-demo/.
demo: $(READY) java
	$(BIN)/python -m tocsin demo

java:
	@bash scripts/ensure-java.sh

# What tests of routers over NATS need.
nats:
	@bash scripts/ensure-nats.sh

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Tocsin needs Python 3.11 or newer; name one with: make PYTHON=python3.12 test"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "Python's venv module is missing; on Debian: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $(READY)

# What polygons are compared with: DuckDB's spatial extension is a package for one version of it.
$(PEERS)/.ready:
	@$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet duckdb-extension-spatial geoarrow-pyarrow \
	  geopandas sedonadb 'shapely>=2.1' togo
	@touch $@

clean:
	rm -rf $(VENV) $(PEERS) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
