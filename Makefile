# Python 3.11+, Java 17+ and make are all that these need: each target makes the environment that it runs in.
# Services and other versions: tests/services.mk. Benchmarks: benchmarks/bench.mk. Which suite proves what, and what a
# push and a night run: docs/design/tests.md.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST = $(BIN)/python -u -m pytest --hypothesis-profile=$(PROFILE)
# Histories and orders of sets are the same in all that a push waits for; drawn anew they are nightly's work.
PROFILE := same
export PYTHONHASHSEED := 0

.DEFAULT_GOAL := help
.PHONY: help demo quick test test-on-spark test-others check workflows docs notebooks dist nightly test-slow test-slow-on-spark test-slow-servers test-slow-doubles mutants prove clean

help:  ## Show this list
	@echo 'Every day:'
	@grep -hE '^[a-z0-9-]+:.*##\*' $(MAKEFILE_LIST) | sed 's/:.*##\* /\t/' | sort | expand -t 16
	@echo 'Now and then:'
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | sort | expand -t 16

demo: .venv/.ready  ##* First load and an overwrite of real flights, while a reader loops over the table
	$(BIN)/python -m demo

# What of the tests is neither Spark's nor a server's. The rest of these directories, and what takes long, is marked `not_quick`.
QUICK := $(addprefix tests/,cli doctor explore log maintenance model plan publish read reports rows) $(wildcard tests/test_*.py) table_writer
QUICK += --ignore-glob='*browser*' --ignore=table_writer/testing/moto_server.py  # cannot be imported without them
QUICK += $(addprefix --ignore=tests/,publish/test_success_markers.py maintenance/test_damage.py test_forks.py test_scale.py maintenance/test_many_tables.py maintenance/test_on_files.py)  # take long

quick:  ##* Lint, types, contracts, bounds, and all tests that need neither Java nor a server: two minutes
	$(MAKE) --no-print-directory check VENV=.venv-unit
	.venv-unit/bin/python -m pytest -n auto -q --without-servers -m "not slow and not lakehouse and not not_quick" $(QUICK)

# Two processes at once, a core each: the fast tests on Spark, and all others. Below a make that runs two at a time
# already, these are two of its jobs.
TWO_AT_ONCE = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j2)

test: .venv/.ready versitygw  ##* All tests but the slow matrices
	$(MAKE) --no-print-directory $(TWO_AT_ONCE) test-on-spark test-others

test-on-spark: .venv/.ready versitygw
	$(PYTEST) -m "not slow and lakehouse"

test-others: .venv/.ready versitygw
	$(PYTEST) -m "not slow and not lakehouse"

check: $(VENV)/.ready  ##* Lint, types, import contracts, bounds
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports setup.cfg
	$(BIN)/python -m tests.bounds

docs: .venv/.ready  ##* The documentation of this version, warnings are errors: docs/_build/html/VERSION
	version=$$($(BIN)/python -c 'import table_writer; print(table_writer.__version__)') && \
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html/$$version && \
	echo "<!doctype html><meta http-equiv=refresh content='0; url=$$version/index.html'>" > docs/_build/html/index.html

# The time of the commit is that of all files in the wheel, so whoever builds it again from the sdist gets the same bytes.
EMPTY := build/environment

dist: .venv/.ready  ## sdist, wheel and SBOM, checked; the wheel writes a table in an empty environment
	rm -rf dist $(EMPTY)
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/python -m venv $(EMPTY)
	$(EMPTY)/bin/python -m pip install --quiet --no-deps --no-index --find-links dist hive-table-writer
	$(EMPTY)/bin/python -m pip install --quiet hive-table-writer
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file dist/hive-table-writer.cdx.json $(EMPTY)/bin/python
	$(PYTEST) --needs=dist -m needs tests/release

notebooks: .venv/.ready  ## Run the notebooks, and store them with what they show
	$(BIN)/python -m tests.docs.notebooks

nightly:  ## What no push waits for: the slow matrices with histories drawn anew, every other Hive, Spark, database and store
	$(MAKE) --no-print-directory -j2 PROFILE=anew PYTHONHASHSEED=random test-slow-on-spark test-slow-servers test-slow-doubles test-azure-matrix test-gcs-matrix test-hive-3.1.3 test-hive-4.2.0 test-databases-2.3.10 test-databases-4.0.1 test-delta test-spark41 test-spark42 test-comet-all test-connect-4.1.4 test-connect-4.2.1 test-stores

test-slow:  ## The slow matrices
	$(MAKE) --no-print-directory -j2 test-slow-on-spark test-slow-servers test-slow-doubles

# Of the slow tests those on doubles and pages run by themselves.
DOUBLES := $(addprefix tests/,docs doubles explore fuzz glue/test_every_fault.py log maintenance model outside/test_pictures.py publish reports test_calls.py test_complete.py test_run_all.py test_scale.py)

test-slow-on-spark: .venv/.ready versitygw
	$(PYTEST) -m "slow and lakehouse" $(addprefix --ignore=,$(DOUBLES))

test-slow-servers: .venv/.ready versitygw
	$(PYTEST) -m "slow and not lakehouse" $(addprefix --ignore=,$(DOUBLES))
	$(PYTEST) --needs=moto -m needs --lakehouse-s3=moto tests/security

test-slow-doubles: .venv/.ready versitygw chromium
	$(PYTEST) -m slow $(DOUBLES)

prove: .venv/.ready versitygw  ## Try to break the promise for half an hour; one page and one JSON of it. Options: PROVE="--minutes 60"
	$(BIN)/python -m tests.prove $(PROVE)

mutants: .venv-mutants/.ready  ## Does a test notice a wrong line of the protocol? Options: MUTANTS="--mutants 200"
	.venv-mutants/bin/python tests/mutants/run.py $(MUTANTS)

# One rule makes every environment. What each installs; those of another Spark or Python say it in their names.
INSTALLS-venv := '.[dev]'
INSTALLS-venv-unit := '.[unit]'
INSTALLS-venv-bench := '.[bench]'
INSTALLS-venv-mutants := '.[mutants]'
INSTALLS-venv-airflow := '.[testing,airflow]'
INSTALLS-venv-dbt := '.[testing,dbt]' 'dbt-core<1.12'  # 1.12 has a dependency that pip builds from a download of its own
INSTALLS-venv-pipelines := '.[testing,kedro,dagster,prefect]' kedro-datasets great_expectations pandera
INSTALLS-venv-spark3.5 := '.[testing]' 'pyspark>=3.5,<3.6'
INSTALLS-venv-spark4.1 := '.[testing]' 'pyspark>=4.1,<4.2'
INSTALLS-venv-spark4.2 := '.[testing]' 'pyspark>=4.2,<4.3'
OF_ANOTHER_SPARK = '.[testing,connect]' 'pyspark==$(patsubst venv-connect-%,%,$*)'

.PRECIOUS: .%/.ready
.%/.ready: pyproject.toml
	$(if $(filter venv-python%,$*),$(patsubst venv-%,%,$*),$(PYTHON)) -m venv .$*
	.$*/bin/python -m pip install --quiet --upgrade pip
	.$*/bin/python -m pip install --quiet --editable $(or $(INSTALLS-$*),$(if $(filter venv-connect-%,$*),$(OF_ANOTHER_SPARK),'.[testing]'))
	.$*/bin/python -m compileall -q table_writer  # as pip does with what it copies: else each new process compiles all files
	touch $@

clean:  ##* Remove what the targets made
	rm -rf .venv .venv-* mutants docs/_build docs/reference/generated build dist *.egg-info *.whl
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

include tests/services.mk benchmarks/bench.mk
