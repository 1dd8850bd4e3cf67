"""Run histories by hand: ``python -m tests.fuzz --seed 1 --seeds 1000``."""

from __future__ import annotations

import argparse
import logging
import sys
import time

from .report import failure_of, history, shortest

logging.disable(logging.CRITICAL)
options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--seed", type=int, default=0)
options.add_argument("--seeds", type=int, default=1)
options.add_argument("--most", type=int, default=1, help="stop after so many failures")
options.add_argument("--unpartitioned", action="store_true", help="of a table without partitions")
options.add_argument("--long", action="store_true", help="do not shorten")
chosen = options.parse_args()
started, failed = time.monotonic(), 0
for seed in range(chosen.seed, chosen.seed + chosen.seeds):
    found = failure_of(history(seed, unpartitioned=chosen.unpartitioned))
    if found is not None:
        failed += 1
        print(
            f"seed {seed}\n{found if chosen.long else shortest(history(seed, unpartitioned=chosen.unpartitioned))}\n",
            flush=True,
        )
    if failed >= chosen.most:
        break
print(f"{seed - chosen.seed + 1} histories in {time.monotonic() - started:.0f} s, {failed} failed")
sys.exit(failed > 0)
