# Java with all its compilers, as in a job; tests run for too short a time to earn them back.
BENCHMARKS := bench bench-append bench-budget bench-cold bench-comet bench-connect bench-formats bench-memory bench-rows bench-scale bench-small
.PHONY: $(BENCHMARKS)
$(BENCHMARKS): export JAVA_TOOL_OPTIONS :=

# Without Go and without a network for it, moto stands in, which is slow; the benchmark says so.
bench: .venv-bench/.ready  ## table_writer against its peers, side by side, half an hour; options: BENCH="--cases lineitem --runs 5"
	-$(MAKE) --no-print-directory versitygw
	.venv-bench/bin/python -m benchmarks.compare $(BENCH)

bench-append: .venv/.ready versitygw  ## Appends to partitions of 1,000 files, side by side
	$(BIN)/python -m benchmarks.append
	$(BIN)/python -m benchmarks.append_in_place

bench-budget: .venv/.ready versitygw  ## Where the time of an overwrite goes, step by step
	$(BIN)/python -m benchmarks.budget

bench-comet: .venv-bench/.ready versitygw  ## The same of rows in files, without Comet and with it
	.venv-bench/bin/python -m benchmarks.budget --comet

bench-cold: .venv/.ready versitygw  ## The only write of an application, ours and Spark's in turns; options: BENCH="--shapes small --latency-ms 20"
	$(BIN)/python -m benchmarks.cold $(BENCH)

bench-connect: .venv/.ready versitygw  ## The same writes over a classic session and over Spark Connect
	$(BIN)/python -m benchmarks.connect

bench-formats: .venv/.ready versitygw  ## Requests and copies of an overwrite of 100 ORC files, by each committer
	$(BIN)/python -m benchmarks.formats

bench-memory: .venv/.ready  ## Peak memory of a Python worker, against its formula
	$(BIN)/python -m benchmarks.memory

bench-rows: .venv-bench/.ready versitygw  ## A merge of 1 % of a table's rows, and MERGE of Delta and of Iceberg
	.venv-bench/bin/python -m benchmarks.rows $(BENCH)

bench-scale: .venv-bench/.ready  ## How the commit grows with files and partitions, mostly simulated
	.venv-bench/bin/python -m benchmarks.scale --picture docs/_static/scale.svg

bench-small: .venv/.ready versitygw  ## Overwrites of 4,000 rows, ours and Spark's in turns, and each call of one of ours
	$(BIN)/python -m benchmarks.small --calls
