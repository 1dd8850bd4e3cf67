"""The reference lists each option that a call takes, with its type and meaning."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any, get_args, get_type_hints

import pytest

from table_writer import TableWriter
from table_writer.config import SelectedRowKeywords, StatementKeywords, WriteKeywords
from table_writer.jobs.calls import CallKeywords
from table_writer.jobs.rows.merge import MergeKeywords

from .markdown_blocks import ROOT

OF_ONE_MODE = {"where": "overwrite_partitions", "carry": "append", "max_copied_bytes": "append"}
MODES = {"overwrite_partitions", "append", "create_partitions", "overwrite_table"}
OF_ROWS = set(CallKeywords.__annotations__) - set(WriteKeywords.__annotations__)
NOT_LISTED = {
    "plan": OF_ROWS,
    "stage": OF_ROWS,
    "merge": set(MergeKeywords.__annotations__) - set(SelectedRowKeywords.__annotations__),  # in its docstring
    "for_each_batch": {"idempotency_key", "write_uuid"} | OF_ROWS,
    "sql": set(StatementKeywords.__annotations__),  # the call that the statement stands for lists them
}


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    specification = importlib.util.spec_from_file_location("options", ROOT / "docs" / "options.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def calls_with_options() -> list[Callable[..., Any]]:
    functions = (function for name, function in inspect.getmembers(TableWriter, callable) if not name.startswith("_"))
    return [one for one in functions if inspect.getfullargspec(inspect.unwrap(one)).varkw]


def options(function: Callable[..., Any]) -> set[str]:
    plain = inspect.unwrap(function)
    (keywords,) = get_args(get_type_hints(plain)[str(inspect.getfullargspec(plain).varkw)])
    return set(keywords.__annotations__)


@pytest.mark.parametrize("call", calls_with_options(), ids=lambda call: call.__name__)
def test_each_option_of_a_call_is_listed_with_its_type(hook: ModuleType, call: Callable[..., Any]) -> None:
    lines = (inspect.getdoc(call) or "").splitlines()
    hook.expand_options(None, "method", f"table_writer.TableWriter.{call.__name__}", call, None, lines)
    listed = {found[1] for line in lines if (found := re.fullmatch(r"(\w+) : .+, default .+", line))}
    others = {name for name, mode in OF_ONE_MODE.items() if call.__name__ in MODES - {mode}}
    assert listed == options(call) - others - NOT_LISTED.get(call.__name__, set())


def test_every_call_with_options_was_found() -> None:
    assert {"append", "compact", "create_table", "plan", "stage"} < {call.__name__ for call in calls_with_options()}
