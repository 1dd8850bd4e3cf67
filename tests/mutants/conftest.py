collect_ignore = ["run.py"]  # it needs mutmut, which only `make mutants` has
