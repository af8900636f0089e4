# Two commands are all a newcomer needs: `make demo` and `make test`. Each sets up what it needs.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
SPARK ?= 4.3
SPARK_VENV = .venv-spark-$(SPARK)
PYSPARK_RELEASES = 4.0.5 4.1.4 4.2.1 4.3.0
SPARK_VERSIONS = $(basename $(PYSPARK_RELEASES))
SPARK_ENVIRONMENTS = $(patsubst %/.ready,%,$(wildcard $(SPARK_VERSIONS:%=.venv-spark-%/.ready)))
NATIVE_TESTS = tests/extension tests/session tests/tables tests/streaming
PLACES_TESTS = tests/extension/test_places.py tests/extension/test_own_statements.py
SERVE_TESTS ?= tests/session tests/tables
DEMO_PATH ?= demo-data/flights
PYTEST_ARGS ?=
TEST_WORKERS ?= 2
EXAMPLES ?= https://github.com/delta-io/delta
TESTS ?= not long
PUBLISH_VENV ?= .venv-publish
# With other versions of these the bytes of a wheel, or the form of its list of parts, may differ.
PUBLISHING = build==1.6.1 hatchling==1.33.0 cyclonedx-bom==7.5.0 pip-audit==2.10.1
LOWEST_VENV ?= .venv-lowest
# With the lowest versions: tests with Spark that show each way into our packages. The first release of the oldest Spark has
# the places that our classes use; then readers, writers, hidden rows, DeltaTable, streams, reports, terminal, Iceberg.
LOWEST_SPARK_TESTS ?= tests/extension/test_places.py tests/session/test_reading.py tests/session/test_writing.py \
    tests/spark/test_native_scan.py tests/tables/test_delta_table.py \
    tests/streaming/test_sink.py tests/session/test_report_function.py tests/cli/test_cli_statements.py tests/tables/test_uniform.py
# As a client of Spark Connect, where the packages of the extra `connect` are used.
LOWEST_CONNECT_TESTS ?= tests/tables/test_delta_table.py tests/session/test_reading.py
# These use a newer pyarrow, or a newer typer, than anabranch needs.
NOT_LOWEST = --deselect tests/uniform/test_conversion.py --deselect tests/docs/test_reference.py \
    --deselect tests/tables/test_uniform.py::test_every_change_of_rows
HISTORIES ?= 20000
BATCHES ?= 1000
INPUTS ?= 100000

# Versions of all packages but PySpark, by `make lock`. `make test CONSTRAINTS=` installs the newest of all instead.
CONSTRAINTS ?= constraints.txt
# The package as it lies here, its extras, and the tools of its development: pip knows dependency groups from 25.1 on.
packages = -e '.[connect,demo,iceberg,report]' --group dev
# The PySpark of a version: the release that the tests were last run on, or the newest.
pyspark = 'pyspark==$(if $(CONSTRAINTS),$(filter $(1).%,$(PYSPARK_RELEASES)),$(1).*)'
install = $(1)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' \
    && $(1)/python -m pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) $(packages) \
    $(call pyspark,$(2))

in_processes = -m pytest -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder

export PYTHONUNBUFFERED = 1
export EXAMPLES STATEMENTS ENGINES SEED

.PHONY: help demo test coverage test-long test-lowest wheel sbom audit release check lint types docs site notebook bench prove storm soak soak-leaks soak-streams soak-batches soak-serve judge fuzz test-faults test-spark-faults test-next test-serve test-attacks test-spark test-native test-places test-jar test-iceberg test-s3a test-services test-statements record-statements test-examples test-bi java java-check java-check-all lock clean

help: ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/.ready java ## A Delta table from 336,776 real flights: concurrent writers, time travel, skipping
	@$(BIN)/anabranch demo $(DEMO_PATH)

test: $(VENV)/spark.jsa java ## Every layer and every statement, in TEST_WORKERS processes: about a quarter of an hour
	$(BIN)/python $(in_processes) -m "not long" $(PYTEST_ARGS)

coverage: $(VENV)/spark.jsa java ## The lines that tests run, of all but the long ones: make coverage TESTS='not spark and not long'
	$(BIN)/coverage erase
	$(BIN)/coverage run $(in_processes) -m "$(TESTS)" $(PYTEST_ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --sort=miss

test-long: $(VENV)/spark.jsa java ## What is long by nature: many processes, servers, interleavings, soak, leaks
	$(BIN)/python $(in_processes) -m long $(PYTEST_ARGS)

test-lowest: $(LOWEST_VENV)/.ready java ## With the lowest version of each package that pyproject.toml accepts: all without Spark, and 200 with it
	$(LOWEST_VENV)/bin/python -m pytest -q -m "not spark and not long" $(NOT_LOWEST) $(PYTEST_ARGS)
	$(LOWEST_VENV)/bin/python -m pytest -q -m "spark and not long" $(LOWEST_SPARK_TESTS) $(NOT_LOWEST) $(PYTEST_ARGS)
	ANABRANCH_TEST_CONNECT=own $(LOWEST_VENV)/bin/python -m pytest -q -m "spark and not long" $(LOWEST_CONNECT_TESTS) $(NOT_LOWEST) $(PYTEST_ARGS)

wheel: $(PUBLISH_VENV)/.ready ## Wheel and source archive in dist/, the same bytes from the same commit
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(PUBLISH_VENV)/bin/python -m build --no-isolation --outdir dist
	@sha256sum dist/* 2>/dev/null || shasum -a 256 dist/*

sbom: wheel ## What an installation of the wheel consists of, in CycloneDX's format: dist/anabranch.cdx.json
	rm -rf build/installed
	$(PYTHON) -m venv build/installed
	build/installed/bin/python -m pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) dist/*.whl
	build/installed/bin/python -m pip uninstall --quiet --yes setuptools pip
	$(PUBLISH_VENV)/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type library --output-reproducible \
	    --output-file dist/anabranch.cdx.json build/installed/bin/python

audit: $(PUBLISH_VENV)/.ready ## Known vulnerabilities of the packages in constraints.txt and of PySpark, where a database of advisories answers
	@$(PUBLISH_VENV)/bin/python scripts/audit.py constraints.txt $(call pyspark,$(lastword $(SPARK_VERSIONS)))

release: $(VENV)/.ready ## Set the version, fold changes/ into CHANGELOG.md, commit and tag: make release VERSION=0.2.0
	@scripts/release.sh "$(VERSION)"

check: $(VENV)/.ready lint types java java-check ## Format, lint, strict types, layers, Java, the examples of README and docs
	$(BIN)/python -m pytest -q tests/test_layers.py tests/docs

lint: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.ready
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini

docs: $(VENV)/.ready java ## Run the examples of README and docs
	$(BIN)/python -m pytest -q tests/docs

site: .venv-docs/.ready ## The docs as a site, in build/site: it needs no network, neither to build nor to read
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict
	@echo "Open $(CURDIR)/build/site/index.html"

notebook: .venv-docs/.ready $(VENV)/.ready java ## Run docs/tutorial.ipynb as Jupyter does, and save what it printed
	@PYTHON=$(CURDIR)/$(BIN)/python .venv-docs/bin/python scripts/run_notebook.py docs/tutorial.ipynb

bench: $(VENV)/.ready java ## Measure; BENCH names the program, see benchmarks/README.md
	$(BIN)/python -m benchmarks $(BENCH)

prove: $(VENV)/.ready ## Random histories of concurrent statements against the judges: make prove HISTORIES=100000
	PYTHONPATH=tests $(BIN)/python -m concurrency.prove $(HISTORIES)

storm: $(VENV)/.ready ## Simulated writers, upkeep and readers over a store that fails, before judges: make storm SEEDS=10000
	PYTHONHASHSEED=0 PYTHONPATH=src:tests $(BIN)/python -m simulation.storm $(or $(SEEDS),1000)

test-faults: $(VENV)/.ready ## Each call of each operation fails in each way, on a disk and on moto's S3; SHARE=0.1 is a tenth of them
	PYTHONPATH=src:tests $(BIN)/python -m calls.every_call disk $(or $(SHARE),1)
	PYTHONPATH=src:tests $(BIN)/python -m calls.every_call s3 $(or $(SHARE),1)

test-spark-faults: $(VENV)/spark.jsa java ## All statements while executors and drivers are killed, disks are full or read-only, memory is short
	ANABRANCH_SPARK_FAULTS=all $(BIN)/python -m pytest -q --timeout=0 tests/spark_faults $(PYTEST_ARGS)

fuzz: $(VENV)/.ready ## Random inputs for every parser of bytes that others wrote: make fuzz INPUTS=1000000
	PYTHONPATH=src:tests $(BIN)/python -m fuzz.fuzzing $(INPUTS) $(or $(SEED),1)

judge: $(VENV)/.ready java ## Writers of deltalake, DuckDB, Sail, the jar and ours on the same tables, judged: make judge STATEMENTS=100 ENGINES="deltalake sail"
	@PYTHON=$(PYTHON) scripts/judge.sh

soak: $(VENV)/.ready java ## Processes with Spark on the same tables, killed and begun anew, before judges: make soak SECONDS=3600
	PYTHONPATH=tests $(BIN)/python -m soak.soaking $(or $(SECONDS),3600)

soak-leaks: $(VENV)/.ready java ## 500 statements of each kind, 300 sessions, eight threads for five minutes: what they leave
	ANABRANCH_LEAK_ROUNDS=500 ANABRANCH_LEAK_SESSIONS=300 ANABRANCH_LEAK_SECONDS=300 $(BIN)/python -m pytest -s --timeout=0 tests/extension/test_leaks.py

soak-streams: $(VENV)/.ready java ## Streams, MERGE, OPTIMIZE and VACUUM on one table, killed and restarted: make soak-streams SECONDS=600
	PYTHONPATH=src:tests $(BIN)/python -m streaming.soak $(or $(SECONDS),600)

soak-batches: $(VENV)/.ready java ## 1,000 micro-batches from a table into a table: what they leave
	ANABRANCH_STREAM_BATCHES=$(BATCHES) $(BIN)/python -m pytest -s --timeout=0 tests/streaming/test_batches_at_length.py

soak-serve: $(VENV)/.ready java ## 1,000 sessions of clients of `anabranch serve`, by both doors: what they leave
	ANABRANCH_SERVE_SESSIONS=1000 $(BIN)/python -m pytest -s --timeout=0 tests/serve/test_served_clients.py -k leave_nothing

test-serve: $(VENV)/spark.jsa java ## The tests of sessions and tables as a client of `anabranch serve`; SERVE_TESTS names others
	ANABRANCH_TEST_CONNECT=serve $(BIN)/python -m pytest -q -m spark $(SERVE_TESTS) $(PYTEST_ARGS)

test-attacks: $(VENV)/spark.jsa java ## Ways out of the warehouse of `anabranch serve --warehouse-only`, by both doors: a part of test-long
	$(BIN)/python -m pytest tests/serve/test_attacks.py tests/serve/test_only_warehouse.py $(PYTEST_ARGS)

test-spark: $(SPARK_VENV)/spark.jsa java ## Spark tests on another PySpark: make test-spark SPARK=4.0
	$(SPARK_VENV)/bin/python -m pytest -m spark $(PYTEST_ARGS)

test-native: $(SPARK_VENV)/spark.jsa java ## Statements, readers, writers and streams on another PySpark: make test-native SPARK=4.1
	$(SPARK_VENV)/bin/python -m pytest -m spark $(NATIVE_TESTS) $(PYTEST_ARGS)

test-places: java ## What later Sparks may change, on each PySpark that has an environment here: a part of .ci/run
	@for environment in $(SPARK_ENVIRONMENTS); do \
	    echo "$$environment"; $$environment/bin/python -m pytest -q $(PLACES_TESTS) $(PYTEST_ARGS) || exit; \
	done

test-next: java ## What later Sparks may change, on the newest PySpark that pip offers, previews included; NEXT names another
	@PYTHON=$(PYTHON) NEXT=$(NEXT) scripts/test_next.sh $(PLACES_TESTS) $(PYTEST_ARGS)

test-jar: $(VENV)/.ready java ## Against the delta-spark jar, fetched by Maven
	@scripts/test_jar.sh $(PYTEST_ARGS)

test-iceberg: .venv-spark-4.0/.ready java ## UniForm tables, read by Iceberg's own runtime, fetched by Maven
	@scripts/test_iceberg.sh $(PYTEST_ARGS)

test-s3a: $(VENV)/.ready java ## Spark's data files on S3, by Hadoop's connector, fetched by Maven (700 MB)
	@scripts/test_s3a.sh $(PYTEST_ARGS)

test-services: $(VENV)/.ready java ## Tables on Azure Storage and on HDFS: Azurite from npm, a small HDFS from Maven
	@scripts/test_services.sh $(PYTEST_ARGS)

test-statements: $(VENV)/.ready java ## Statements beside the delta-spark jar: the same rows, the same errors
	@JAR_TESTS=tests/differential scripts/test_jar.sh $(PYTEST_ARGS)

record-statements: $(VENV)/.ready java ## Answers of the delta-spark jar, which make test compares with: make record-statements SUBJECTS=rows
	@scripts/record_statements.sh $(SUBJECTS)

test-examples: $(VENV)/.ready java ## delta-spark's example programs, unchanged; EXAMPLES names a clone of delta-io/delta
	@PYTHON=$(BIN)/python scripts/test_examples.sh $(PYTEST_ARGS)

test-bi: java ## A dbt project and Apache Superset on `anabranch serve`, from environments of their own
	@PYTHON=$(PYTHON) scripts/test_bi.sh $(PYTEST_ARGS)

java-check: $(VENV)/.ready java ## Compile the Java sources for each PySpark that has an environment here
	@$(BIN)/python scripts/check_java.py $(SPARK_VERSIONS)

java-check-all: $(SPARK_VERSIONS:%=.venv-spark-%/.ready) java-check ## The same, with an environment for each

java:
	@scripts/ensure_java.sh

$(VENV)/.ready: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), f"anabranch needs Python 3.11 or newer, this is {sys.version.split()[0]}; name another one with PYTHON=..."'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Setting up $(VENV) (once; about a minute) ..."
	@$(call install,$(BIN),$(lastword $(SPARK_VERSIONS)))
	@touch $@

$(PUBLISH_VENV)/.ready: Makefile
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check $(PUBLISHING)
	@touch $@

$(LOWEST_VENV)/.ready: pyproject.toml scripts/lowest.py
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@echo "Setting up $(@D) (once; some minutes) ..."
	@mkdir -p build && $(PYTHON) scripts/lowest.py > build/lowest.txt
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c build/lowest.txt $(packages)
	@touch $@

.venv-spark-%/.ready: pyproject.toml $(CONSTRAINTS)
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@echo "Setting up $(@D) (once) ..."
	@$(call install,$(@D)/bin,$*)
	@touch $@

.venv-docs/.ready: pyproject.toml $(CONSTRAINTS)
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@echo "Setting up $(@D) (once) ..."
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) --group docs
	@touch $@

%/spark.jsa: %/.ready | java
	@echo "Writing the classes that Spark loads into $@ (once; half a minute) ..."
	@$(@D)/bin/python tests/class_data.py

lock: $(VENV)/.ready ## Renew constraints.txt: the newest versions of all packages that fit together
	@$(BIN)/python scripts/lock.py $(packages) --group docs $(call pyspark,$(lastword $(SPARK_VERSIONS)))

clean: ## Remove environments and what the demo made
	rm -rf .venv .venv-bi .venv-docs .venv-lowest .venv-next .venv-publish .venv-sail .venv-services .venv-superset .venv-jar .venv-spark-* demo-data .pytest_cache .mypy_cache .ruff_cache build dist
