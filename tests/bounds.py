"""The bounds of the house: ``python -m tests.bounds``, in `make check`; ends with 1, and says where, if one is passed.

A file that is too long, a value with too many fields, a call that takes too much: each is a place that has come to know
too many things. The bounds are where readers got lost, so that a change that passes one is a reason to look for the
two things that it holds. Lines of a wing and words of the reference have none: they are as long as they need to be.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
LINES_OF_A_FILE: Final = 450  # of code: without comments, docstrings, imports and blank lines
LINES_OF_A_FUNCTION: Final = 50  # without its docstring
PARAMETERS: Final = 6
METHODS: Final = 25
FIELDS: Final = 16
WORDS_OF_A_HOW_TO: Final = 1_500
# what users call, and what stands for a gateway in tests; gateways are as wide as what they front
WIDE_FACES: Final = {"TableWriter", "Maintenance", "MemoryMetastore"}
GATEWAYS: Final = ("storage", "metastore")
WIDE_VALUES: Final = {"TableWriterConfig": 31, "TableEvent": 29, "LogEntry": 27, "WritePlan": 24}  # and not one more

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    name: str
    path: Path
    shown: str
    tree: ast.Module = field(repr=False)
    source: str = field(repr=False)

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def room(self) -> str:
        """The folder at the top that it lies in, or itself."""
        return ".".join(self.name.split(".")[:2])


def modules(package: Path) -> dict[str, Module]:
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        source = path.read_text()
        found[name] = Module(name, path, path.relative_to(package.parent).as_posix(), ast.parse(source), source)
    return found


def docstring_lines(node: ast.AST) -> range:
    """Return the numbers of the lines of a docstring; empty where there is none."""
    body = getattr(node, "body", None) or [None]
    first = body[0] if isinstance(body, list) else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return range(first.lineno, (first.end_lineno or first.lineno) + 1)
    return range(0)


def lines_of_code(module: Module) -> int:
    passed_over: set[int] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            passed_over.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, ast.Module | ast.ClassDef | Function):
            passed_over.update(docstring_lines(node))
    lines = enumerate(module.source.splitlines(), 1)
    return sum(1 for number, line in lines if number not in passed_over and line.strip()[:1] not in ("", "#"))


def imports_of(module: Module, names: dict[str, Module]) -> set[str]:
    """Return the files of the package that a file imports, inside functions and for types too."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in found & names.keys() if name != module.name}


def too_long_files(house: dict[str, Module]) -> Iterator[str]:
    for module in house.values():
        lines = lines_of_code(module)
        if lines > LINES_OF_A_FILE:
            yield f"{module.shown}: {lines} lines of code, at most {LINES_OF_A_FILE}"


def wide_functions(house: dict[str, Module]) -> Iterator[str]:
    for module, node in _all_nodes(house, Function):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1 - len(docstring_lines(node))
        if lines > LINES_OF_A_FUNCTION:
            yield f"{_place(module, node)}: {node.name} has {lines} lines, at most {LINES_OF_A_FUNCTION}"
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        taken = [argument for argument in given if argument.arg not in ("self", "cls")]
        if len(taken) > PARAMETERS:
            yield f"{_place(module, node)}: {node.name} takes {len(taken)} parameters, at most {PARAMETERS}"


def wide_classes(house: dict[str, Module]) -> Iterator[str]:
    for module, node in _all_nodes(house, ast.ClassDef):
        if module.room.removeprefix("table_writer.") in GATEWAYS or node.name in WIDE_FACES:
            continue
        methods = sum(isinstance(item, Function) for item in node.body)
        if methods > METHODS:
            yield f"{_place(module, node)}: {node.name} has {methods} methods, at most {METHODS}"
        fields = sum(isinstance(item, ast.AnnAssign) for item in node.body)
        if fields > (most := WIDE_VALUES.get(node.name, FIELDS)):
            yield f"{_place(module, node)}: {node.name} has {fields} fields, at most {most}"


def circles(house: dict[str, Module]) -> Iterator[str]:
    """Yield the first circle of files; ``__init__`` files gather names, and close none."""
    files = {name: module for name, module in house.items() if not module.is_package}
    graph = {name: imports_of(module, files) for name, module in files.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield "circle of imports: " + " <- ".join(error.args[1])


def arrows_up(house: dict[str, Module]) -> Iterator[str]:
    """Yield rooms that import each other: the direction with fewer imports is the wrong one."""
    between: dict[tuple[str, str], list[str]] = {}
    for module in house.values():
        for name in imports_of(module, house) if not module.is_package else ():
            if not house[name].is_package and house[name].room != module.room:
                between.setdefault((module.room, house[name].room), []).append(f"{module.name} imports {name}")
    for (room, other), found in sorted(between.items()):
        back = between.get((other, room), [])
        if back and len(found) <= len(back):
            yield f"{room} and {other} import each other ({len(found)} and {len(back)}): {found[0]}"


def long_how_tos(docs: Path) -> Iterator[str]:
    for page in [docs / "tutorial.md", *sorted((docs / "how-to").glob("*.md"))]:
        words = len(page.read_text().split())
        if words > WORDS_OF_A_HOW_TO:
            yield f"{page.relative_to(docs.parent)}: {words} words, at most {WORDS_OF_A_HOW_TO}"


RULES: Final[tuple[Callable[[dict[str, Module]], Iterator[str]], ...]] = (
    too_long_files,
    wide_functions,
    wide_classes,
    circles,
    arrows_up,
)


def broken(package: Path = ROOT / "table_writer", docs: Path = ROOT / "docs") -> list[str]:
    """Return a line for each bound that is passed."""
    house = modules(package)
    return [line for rule in RULES for line in rule(house)] + list(long_how_tos(docs))


def _all_nodes(house: dict[str, Module], kind: Any) -> Iterator[tuple[Module, Any]]:
    for module in house.values():
        for node in ast.walk(module.tree):
            if isinstance(node, kind):
                yield module, node


def _place(module: Module, node: Function | ast.ClassDef) -> str:
    return f"{module.shown}:{node.lineno}"


def main() -> int:
    lines = broken()
    print("\n".join(lines) if lines else "All bounds of the house are kept.")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
