"""A proof says what was tried and what was broken, and a part that cannot be made is no success."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.prove import proofs
from tests.prove.__main__ import main
from tests.prove.proofs import Extents, Part


def test_a_few_seconds_of_each_part_that_needs_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for part in ("schedules", "histories", "foreign bytes") for word in ("--only", part)]
    assert main([*words, "--minutes", "0.1", "--directory", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "proof.json").read_text())
    figures = {part["name"]: part["figures"] for part in found["parts"]}
    assert figures["schedules"]["schedules"] > 0
    assert figures["histories"]["histories"] > 0
    assert figures["foreign bytes"]["Thrift"] > 0
    text = (tmp_path / "proof.md").read_text()
    assert "Nothing that was tried has broken a promise." in text
    assert "## What was not tried" in text
    assert "0 broken" in capsys.readouterr().out


def test_what_is_broken_or_could_not_be_tried_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_: Extents) -> Part:
        return Part("rules", "?", broken=["not noticed: a rule"])

    def fails(_: Extents) -> Part:
        raise OSError("no server")

    monkeypatch.setattr(proofs, "FAULTS", ("tests/nowhere",))
    idle = {"histories": lambda _: Part("histories", "?", {"histories": 0})}
    monkeypatch.setattr(proofs, "PARTS", {**proofs.PARTS, **idle, "rules": breaks, "kills": fails})
    words = [word for part in ("rules", "faults", "histories", "kills") for word in ("--only", part)]
    assert main([*words, "--minutes", "0.1", "--directory", str(tmp_path)]) == 1
    text = (tmp_path / "proof.md").read_text()
    assert "**A promise was broken.**" in text
    assert "not noticed: a rule" in text
    assert "it could not be tried: OSError: no server" in text
    assert "- faults: pytest ended with 4" in text
    assert "- histories: nothing was tried" in text
