"""The parts of a proof: each tries to break the promise in its own way, and returns what it has tried and found."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from table_writer.config import TableWriterConfig
from table_writer.doctor import checker
from table_writer.doctor.certify import certify
from table_writer.doctor.certify_steps import Extent
from table_writer.protocol.table.services import Services
from table_writer.reports.certification_report import BROKEN, FAILED, HELD
from table_writer.testing import MetastoreServer, S3Server
from table_writer.testing.jars import s3a_jars
from tests.explore.every_mutation import EVERY_MUTATION
from tests.explore.scenarios import PAIRS, TRIPLES
from tests.explore.search import BUDGETED, Exploration
from tests.explore.worlds import KINDS
from tests.fuzz import foreign_bytes
from tests.fuzz.report import failure_of, history

ROOT: Final = Path(__file__).parents[2]
FAULTS: Final = ("tests/publish", "tests/maintenance", "tests/glue", "tests/mirrors/test_every_fault.py")


@dataclass
class Part:
    """What one part has tried: figures by what they count, and what it has found broken."""

    name: str
    question: str
    figures: dict[str, int] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    seconds: float = 0.0
    files: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Extents:
    """How much of each is tried; the shares of the time add up to 1."""

    seconds: float
    directory: Path

    def until(self, share: float) -> float:
        return time.monotonic() + share * self.seconds


def schedules(extents: Extents) -> Part:
    """Explore whoever meets whom, a few schedules of each pair and triple in turn, until the time is over."""
    part = Part("schedules", "Do the promises hold whoever meets whom, at whatever call, with faults?")
    meetings = [(kind, actors) for group in (PAIRS, TRIPLES) for kind in KINDS for actors in group[kind]]
    ends, seed, met = extents.until(0.3), 0, set[tuple[str, tuple[str, ...]]]()
    while True:
        for kind, actors in meetings:
            if time.monotonic() > ends:
                part.figures |= {"pairs and triples met": len(met), "of": len(meetings)}
                return part
            exploration = Exploration(actors, BUDGETED, kind=kind, seed=seed)
            exploration.sample(2)
            met.add((kind, actors))
            part.figures["schedules"] = part.figures.get("schedules", 0) + exploration.figures.schedules
            part.broken += [str(failure.schedule) for failure in exploration.failures]
        seed += 1


def rules(extents: Extents) -> Part:
    """Break rules of the real code one by one: each has to be noticed."""
    part = Part("rules", "Is it noticed if a rule of the protocol is broken on purpose?")
    ends, count = extents.until(0.2), 0
    for mutation in EVERY_MUTATION:
        if time.monotonic() > ends:
            break
        count += 1
        if not mutation.is_noticed():
            part.broken.append(f"not noticed: {mutation.rule}")
    noticed = count - len(part.broken)
    part.figures |= {"rules broken": count, "noticed": noticed, "of": len(EVERY_MUTATION)}
    return part


def faults(extents: Extents) -> Part:
    """Run the matrices of faults: each call of each operation fails, is lost, or ends its process."""
    part = Part("faults", "Are rows all old or all new, whichever call fails, and does a recovery end it?")
    found = extents.directory / "faults.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "not slow and not lakehouse",
        f"--junit-xml={found}",
        *FAULTS,
    ]
    ran = subprocess.run([*command, "--hypothesis-profile=same"], cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1):  # all passed, or some failed
        part.broken.append(f"pytest ended with {ran.returncode}: {ran.stdout[-500:]}")
    cases = list(ET.parse(found).getroot().iter("testcase"))  # noqa: S314  # our own
    part.figures["cases"] = len(cases)
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    part.broken += [f"{case.get('classname')}.{case.get('name')}" for case in failed]
    found.unlink()
    return part


def histories(extents: Extents) -> Part:
    """Draw histories from seeds, and compare each with an oracle."""
    part = Part("histories", "Does a history of random operations, faults and other tools end as an oracle says?")
    ends, seed = extents.until(0.15), int(time.time())
    while time.monotonic() < ends:
        drawn = history(seed, unpartitioned=seed % 3 == 0)
        if failure_of(drawn) is not None:
            part.broken.append(f"seed {seed}")
        part.figures["histories"] = part.figures.get("histories", 0) + 1
        seed += 1
    return part


def bytes_of_others(extents: Extents) -> Part:
    """Damage what comes from outside."""
    part = Part(
        "foreign bytes", "Does a call end with an answer or an error of this library, whatever bytes it is given?"
    )
    counts, found = foreign_bytes.run(0.15 * extents.seconds, int(time.time()))
    part.figures |= {name: counts[name] for name in sorted(counts)}
    part.broken += list(found)
    return part


def kills(extents: Extents) -> Part:
    """Kill writers on a real store and a real metastore; the checker, by itself, judges their history."""
    part = Part("kills", "Do readers see old rows or new rows, and is nothing lost, while writers are killed?")
    path = extents.directory / "history.jsonl"
    path.unlink(missing_ok=True)  # of the proof before
    with S3Server("versitygw", bucket="prove") as store:
        settings = dict(store.hadoop_settings())
        with MetastoreServer(settings=settings, jars=s3a_jars()) as metastore:
            config = TableWriterConfig(hadoop=settings, metastore_uris=(metastore.uri,), progress="off")
            minutes = max(1.0, 0.2 * extents.seconds / 60)
            extent = Extent(races=1_000, kills=50, minutes=min(60.0, minutes))
            services = Services.without_spark(None, config)
            report = certify("s3a://prove/all", config, services, database="default", extent=extent, history=str(path))
    part.broken += [f"{proof.promise}: {proof.message}" for proof in report.proofs if proof.state in (BROKEN, FAILED)]
    judged = subprocess.run(
        [sys.executable, "-I", checker.__file__, str(path)], capture_output=True, text=True, check=False
    )
    if judged.returncode and not part.broken:
        part.broken.append(judged.stdout)
    kinds = [json.loads(line)["event"] for line in path.read_text().splitlines()]
    words = {"begin": "writes begun", "published": "writes published", "killed": "writes killed", "read": "reads"}
    part.figures |= {what: kinds.count(kind) for kind, what in words.items()}
    held = [proof for proof in report.proofs if proof.promise in checker.CHECKS and proof.state == HELD]
    part.figures |= {"promises held": len(held), "promises": len(checker.CHECKS)}
    part.files.append(path.name)
    return part


PARTS: Final[Mapping[str, Callable[[Extents], Part]]] = {
    "schedules": schedules,
    "rules": rules,
    "faults": faults,
    "histories": histories,
    "foreign bytes": bytes_of_others,
    "kills": kills,
}


def tried(extents: Extents, names: Iterator[str] | list[str]) -> Iterator[Part]:
    """Make parts, one after the other; a part that cannot be made is broken, and so is one that has tried nothing."""
    for name in names:
        began = time.monotonic()
        try:
            part = PARTS[name](extents)
        except Exception as error:  # noqa: BLE001  # the others go on, and the page says so
            part = Part(name, "", broken=[f"it could not be tried: {type(error).__name__}: {error}"])
        if not (part.broken or next(iter(part.figures.values()), 0)):
            part.broken.append("nothing was tried")
        part.seconds = time.monotonic() - began
        yield part


def plain(part: Part) -> dict[str, Any]:
    return {**vars(part), "seconds": round(part.seconds, 1)}
