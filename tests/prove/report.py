"""The page and the JSON of a proof, in words for people who decide."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.prove.proofs import Part, plain

ROOT: Final = Path(__file__).parents[2]
LIBRARIES: Final = ("hive-table-writer", "pyspark", "pyarrow", "boto3", "hmsclient", "thrift", "msgspec")
NOT_TRIED: Final = (
    "Amazon's own S3 and Glue, Azure and Google Cloud Storage: their emulators and doubles are run by other targets.",
    "Months of time: claims, retentions and ages are moved by clocks of tests.",
    "Stores that lie once in a million answers.",
    "What engines do that read no metastore, and queries that run longer than the retention.",
)
WOULD_CHANGE_OUR_MIND: Final = (
    "One schedule, history or seed above that fails: it repeats, and is told step by step.",
    "A certification of a real store (`table-writer certify`) with a line that says `broken`.",
    "A report of rows that were lost or mixed, with the log of the table: the log says who wrote what.",
)


def facts(parts: Sequence[Part], minutes: float) -> dict[str, Any]:
    """Return what the JSON says."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "format": 1,
        "commit": commit.stdout.strip(),
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "minutes": round(minutes, 1),
        "python": platform.python_version(),
        "machine": platform.platform(terse=True),
        "versions": {name: importlib.metadata.version(name) for name in LIBRARIES},
        "holds": not any(part.broken for part in parts),
        "parts": [plain(part) for part in parts],
        "not_tried": list(NOT_TRIED),
        "would_change_our_mind": list(WOULD_CHANGE_OUR_MIND),
    }


def page(found: dict[str, Any]) -> str:
    """Return the same as one page."""
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    verdict = "Nothing that was tried has broken a promise." if found["holds"] else "**A promise was broken.**"
    lines = [
        "# What was tried to break the promise",
        "",
        f"{verdict} Made at {found['made_at']} in {found['minutes']} minutes, of commit {found['commit'][:12]},",
        f"by Python {found['python']} on {found['machine']}: {versions}.",
        "",
        "| what was asked | how often | broken | seconds |",
        "|---|---|--:|--:|",
    ]
    for part in found["parts"]:
        figures = ", ".join(f"{count:,} {what}" for what, count in part["figures"].items())
        lines.append(
            f"| {part['question'] or part['name']} | {figures} | {len(part['broken'])} | {part['seconds']:.0f} |"
        )
    broken = [f"- {part['name']}: {text}" for part in found["parts"] for text in part["broken"][:20]]
    lines += ["", "## What was broken", "", *broken] if broken else []
    lines += ["", "## What was not tried", "", *(f"- {text}" for text in found["not_tried"])]
    lines += ["", "## What would change our mind", "", *(f"- {text}" for text in found["would_change_our_mind"])]
    files = [name for part in found["parts"] for name in part["files"]]
    lines += (
        ["", f"Histories, to judge with `python table_writer/doctor/checker.py`: {', '.join(files)}."] if files else []
    )
    return "\n".join(lines) + "\n"


def save(found: dict[str, Any], directory: Path) -> tuple[Path, Path]:
    """Write both; returns their paths."""
    texts = directory / "proof.md", directory / "proof.json"
    texts[0].write_text(page(found), encoding="utf-8")
    texts[1].write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return texts
