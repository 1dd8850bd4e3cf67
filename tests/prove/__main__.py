"""Try for a while: ``python -m tests.prove --minutes 30``; the page and the JSON are in ``build/proof``."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

from tests.prove.proofs import PARTS, Extents, tried
from tests.prove.report import facts, save


def main(words: list[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=30)
    options.add_argument("--only", choices=list(PARTS), action="append", help="one part, or several")
    options.add_argument("--directory", type=Path, default=Path("build/proof"))
    chosen = options.parse_args(words)
    chosen.directory.mkdir(parents=True, exist_ok=True)
    began, parts = time.monotonic(), []
    for part in tried(Extents(60 * chosen.minutes, chosen.directory), chosen.only or list(PARTS)):
        parts.append(part)
        figures = ", ".join(f"{count:,} {what}" for what, count in part.figures.items())
        print(f"{part.name}: {figures}; {len(part.broken)} broken, {part.seconds:.0f} s", flush=True)
    found = facts(parts, (time.monotonic() - began) / 60)
    print(*save(found, chosen.directory), sep="\n")
    return int(not found["holds"])


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    sys.exit(main(sys.argv[1:]))
