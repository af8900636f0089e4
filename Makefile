# Two commands are all a newcomer needs: `make demo` and `make test`. Each sets up what it needs.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
SPARK ?= 4.3
SPARK_VENV = .venv-spark-$(SPARK)
DEMO_PATH ?= demo-data/flights
PYTEST_ARGS ?=
TEST_WORKERS ?= 2
HISTORIES ?= 20000

export PYTHONUNBUFFERED = 1

.PHONY: help demo test check lint types docs bench prove test-spark test-jar java clean

help: ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.ready java ## A Delta table from 336,776 real flights: concurrent writers, time travel, skipping
	@$(BIN)/anabranch demo $(DEMO_PATH)

test: $(VENV)/.ready java ## All tests, in TEST_WORKERS processes
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

check: $(VENV)/.ready lint types java ## Format, lint, strict types, layers, the examples of README and docs
	$(BIN)/python -m pytest -q tests/test_layers.py tests/docs

lint: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.ready
	$(BIN)/mypy

docs: $(VENV)/.ready java ## Run the examples of README and docs
	$(BIN)/python -m pytest -q tests/docs

bench: $(VENV)/.ready java ## Measure; BENCH names the program, see benchmarks/README.md
	$(BIN)/python -m benchmarks $(BENCH)

prove: $(VENV)/.ready ## Random histories of concurrent statements against the judges: make prove HISTORIES=100000
	PYTHONPATH=tests:tests/transaction $(BIN)/python -m concurrency.prove $(HISTORIES)

test-spark: $(SPARK_VENV)/.ready java ## Spark tests on another PySpark: make test-spark SPARK=4.0
	$(SPARK_VENV)/bin/python -m pytest -m spark $(PYTEST_ARGS)

test-jar: $(VENV)/.ready java ## Against the delta-spark jar, fetched by Maven
	@scripts/test_jar.sh $(PYTEST_ARGS)

java:
	@scripts/ensure_java.sh

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), f"anabranch needs Python 3.11 or newer, this is {sys.version.split()[0]}; name another one with PYTHON=..."'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Setting up $(VENV) (once; about a minute) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

$(SPARK_VENV)/.ready: pyproject.toml
	@test -x $(SPARK_VENV)/bin/python || $(PYTHON) -m venv $(SPARK_VENV)
	@echo "Setting up $(SPARK_VENV) (once) ..."
	@$(SPARK_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' 'pyspark==$(SPARK).*'
	@touch $@

clean: ## Remove environments and what the demo made
	rm -rf .venv .venv-jar .venv-spark-* demo-data .pytest_cache .mypy_cache .ruff_cache build dist
