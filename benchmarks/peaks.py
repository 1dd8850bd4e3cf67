"""What processes use, from Linux's ``/proc``: their peaks of resident memory, and seconds of a core."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
PEAK: Final = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)
TICKS: Final = os.sysconf("SC_CLK_TCK")
FORGET_PEAK: Final = "5"  # proc(5), clear_refs: the peak becomes what is resident now


def reset_peaks(pids: Iterable[int]) -> None:
    """Let the peaks of these processes begin anew."""
    for pid in pids:
        (PROC / str(pid) / "clear_refs").write_text(FORGET_PEAK)


def peak_bytes(pid: int) -> int:
    """Return the peak since the last reset, 0 for a process that has ended."""
    try:
        found = PEAK.search((PROC / str(pid) / "status").read_text())
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


def core_seconds(pid: int) -> float:
    """Return what a process has used so far, with its children that have ended; 0 once it has ended itself."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS


def descendants(pid: int) -> list[int]:
    """Return all processes that a process has started, and those they have."""
    children: dict[int, list[int]] = {}
    for path in PROC.glob("[0-9]*/stat"):
        try:
            stat = path.read_text()
        except OSError:
            continue  # it has ended meanwhile
        parent = int(stat.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(path.parent.name))
    found = list(children.get(pid, []))
    for one in found:
        found += children.get(one, [])
    return found


def core_seconds_by_kind(kinds: Mapping[str, str], others: str) -> Counter[str]:
    """Return what the processes below this one have used so far, by kind; a part of its command tells each."""
    used: Counter[str] = Counter()
    for pid in descendants(os.getpid()):
        try:
            command = (PROC / str(pid) / "cmdline").read_text()
        except OSError:
            continue  # it has ended meanwhile
        used[next((kind for part, kind in kinds.items() if part in command), others)] += core_seconds(pid)
    return used
