"""Each bound of the house is noticed when it is passed by one, and not before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import bounds
from tests.bounds import broken


def function(lines: int = 2, parameters: int = 0) -> str:
    given = ", ".join(f"p{number}" for number in range(parameters))
    return f'def f(self, {given}):\n    """A docstring, which does not count."""\n' + "    x = 1\n" * (lines - 1)


def value(name: str, fields: int) -> str:
    return f"class {name}:\n" + "".join(f"    f{number}: int\n" for number in range(fields))


def class_of(name: str, methods: int) -> str:
    return f"class {name}:\n" + "".join(f"    def m{number}(self): ...\n" for number in range(methods))


FILE = '"""Docstrings,"""\nimport os\n# comments and imports do not count\n\n'
KEPT = {
    "a file": {"room/long.py": FILE + "x = 1\n" * bounds.LINES_OF_A_FILE},
    "a function": {"room/f.py": function(bounds.LINES_OF_A_FUNCTION)},
    "parameters": {"room/f.py": function(parameters=bounds.PARAMETERS)},
    "methods": {"room/c.py": class_of("C", bounds.METHODS)},
    "methods of a face": {"room/c.py": class_of("TableWriter", bounds.METHODS + 9)},
    "methods of a gateway": {"storage/c.py": class_of("Store", bounds.METHODS + 9)},
    "fields": {"room/v.py": value("V", bounds.FIELDS)},
    "fields of one that is wide": {"room/v.py": value("LogEntry", bounds.WIDE_VALUES["LogEntry"])},
    "one way": {"a/x.py": "import table_writer.b.y", "b/y.py": "import os"},
    "through an init": {"a/x.py": "import table_writer.a", "a/__init__.py": "import table_writer.a.x"},
}
PASSED = {
    "a file": ({"room/long.py": FILE + "x = 1\n" * (bounds.LINES_OF_A_FILE + 1)}, "room/long.py: 451 lines of code"),
    "a function": ({"room/f.py": function(bounds.LINES_OF_A_FUNCTION + 1)}, "room/f.py:1: f has 51 lines"),
    "parameters": ({"room/f.py": function(parameters=bounds.PARAMETERS + 1)}, "f takes 7 parameters"),
    "methods": ({"room/c.py": class_of("C", bounds.METHODS + 1)}, "C has 26 methods"),
    "fields": ({"room/v.py": value("V", bounds.FIELDS + 1)}, "V has 17 fields"),
    "fields of one that is wide": (
        {"room/v.py": value("LogEntry", bounds.WIDE_VALUES["LogEntry"] + 1)},
        "LogEntry has",
    ),
    "a circle in a function": (
        {"a/x.py": "def f():\n    from table_writer.a import y", "a/y.py": "import table_writer.a.x"},
        "circle of imports: table_writer.a.",
    ),
    "an arrow up": (
        {"a/x.py": "import table_writer.b.y", "b/y.py": "import os", "b/z.py": "import table_writer.a.w", "a/w.py": ""},
        "table_writer.a and table_writer.b import each other (1 and 1)",
    ),
}


def house(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / "table_writer" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root / "table_writer"


def pages(root: Path, words: int = 1) -> Path:
    (root / "docs" / "how-to").mkdir(parents=True)
    (root / "docs" / "tutorial.md").write_text("word")
    (root / "docs" / "how-to" / "page.md").write_text("word " * words)
    (root / "docs" / "reference.md").write_text("word " * 9_999)
    return root / "docs"


@pytest.mark.parametrize("name", KEPT)
def test_what_is_within_its_bound_is_not_named(name: str, tmp_path: Path) -> None:
    assert broken(house(tmp_path, KEPT[name]), pages(tmp_path)) == []


@pytest.mark.parametrize("name", PASSED)
def test_what_passes_a_bound_by_one_is_named_once_or_from_both_sides(name: str, tmp_path: Path) -> None:
    files, said = PASSED[name]
    lines = broken(house(tmp_path, files), pages(tmp_path))
    assert said in lines[0]
    assert len(lines) == (2 if name == "an arrow up" else 1)


@pytest.mark.parametrize(("words", "count"), [(bounds.WORDS_OF_A_HOW_TO, 0), (bounds.WORDS_OF_A_HOW_TO + 1, 1)])
def test_a_how_to_page_has_a_bound_of_words_and_other_pages_have_none(words: int, count: int, tmp_path: Path) -> None:
    lines = broken(house(tmp_path, {}), pages(tmp_path, words))
    assert len(lines) == count
    assert all(line.startswith("docs/how-to/page.md: 1501 words") for line in lines)
