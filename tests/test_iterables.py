"""What can be gone through only once is gone through only once.

A generator that is read twice is empty the second time, and nobody notices: by that a discarded write was published.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import table_writer

PACKAGE = Path(table_writer.__file__).parent
READ_ONCE = ("Iterable", "Iterator", "Generator")
LAZY = {"map", "filter", "zip", "iter", "reversed", "enumerate", "chain", "islice"}
MANY_TIMES = (ast.For, ast.While, ast.Lambda, ast.FunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def read_again(source: str) -> Iterator[str]:
    """Yield what a module may go through a second time: parameters and variables that hold an iterator."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
            for name, begins in [*_parameters(function), *_variables(function)]:
                uses = [use for use in _uses(function, name) if not _is_compared(parents[use])]
                if len(uses) > 1 or any(_is_repeated(use, begins, parents) for use in uses):
                    yield f"{function.name}({name})"


def _parameters(function: ast.FunctionDef) -> Iterator[tuple[str, ast.AST]]:
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    for argument in arguments:
        if argument.annotation is not None and ast.unparse(argument.annotation).startswith(READ_ONCE):
            yield argument.arg, function


def _variables(function: ast.FunctionDef) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _is_lazy(node.value):
            yield node.targets[0].id, node


def _is_lazy(value: ast.expr) -> bool:
    called = value.func if isinstance(value, ast.Call) else None
    return isinstance(value, ast.GeneratorExp) or (isinstance(called, ast.Name) and called.id in LAZY)


def _uses(function: ast.FunctionDef, name: str) -> list[ast.Name]:
    named = (node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == name)
    return [node for node in named if isinstance(node.ctx, ast.Load)]


def _is_compared(parent: ast.AST) -> bool:
    return isinstance(parent, ast.Compare) and isinstance(parent.ops[0], (ast.Is, ast.IsNot))


def _is_repeated(use: ast.AST, begins: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether what stands here runs more than once after the iterator was made."""
    inside, outside = use, parents.get(use)
    while outside is not None and outside is not begins and begins not in ast.walk(outside):
        is_header = (isinstance(outside, ast.For) and inside is outside.iter) or (
            isinstance(outside, COMPREHENSIONS) and use in ast.walk(outside.generators[0].iter)
        )
        if isinstance(outside, (*MANY_TIMES, *COMPREHENSIONS)) and not is_header:
            return True
        inside, outside = outside, parents.get(outside)
    return False


TAKEN_BIT_BY_BIT = {"batches(iterator)", "_batches(iterator)", "_carry_out_all(left)"}
"""Each round takes the next few items, until none is left."""


def test_no_function_goes_through_an_iterator_twice() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}: {said}"
        for path in PACKAGE.rglob("*.py")
        for said in read_again(path.read_text())
        if said not in TAKEN_BIT_BY_BIT
    }
    assert not found, "take a Collection or a Sequence: mypy then refuses a generator"


@pytest.mark.parametrize(
    ("body", "is_found"),
    [
        ("return set(values) | set(values)", True),
        ("for x in range(2):\n        print(list(values))", True),
        ("return [x for x in range(2) if x in values]", True),
        ("return lambda: list(values)", True),
        ("return [x for x in values if x]", False),
        ("return () if values is None else list(values)", False),
    ],
)
def test_a_second_reading_is_found(body: str, is_found: bool) -> None:
    parameter = f"def f(values: Iterable[int]):\n    {body}"
    variable = f"def f(given):\n    values = (x for x in given)\n    {body}"
    assert [bool([*read_again(source)]) for source in (parameter, variable)] == [is_found, is_found]
