"""``make mutants``: does a test notice when a line of the protocol is wrong?

mutmut makes the mutants, finds out which tests reach which function, and runs those, the fastest first, in forks of a
process that has imported everything. Added here: three kinds of mutants that mutmut does not make, a draw by a fixed
seed, and the page on which every survivor has a reason: tests/mutants/survivors.md.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import libcst as cst
from libcst import matchers
from mutmut import __main__ as mutmut
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.mutation.mutators import mutation_operators
from mutmut.utils.file_utils import copy_also_copy_files, copy_src_dir, setup_source_paths, walk_mutatable_files

SEED = 15
ROOMS = {
    "appends in place": r"operations\.in_place\.|storage\.table_files\.",
    "copies and compactions": r"operations\.append\.|operations\.entry\.",
    "the loop": r"protocol\.loop\.",
    "the publish and its switch": r"operations\.(publisher|switch|parameters|statistics|reads)\.",
    "recoveries": r"operations\.(recovery|evidence|correction)\.",
    "rollbacks and restores": r"operations\.(rollback|restore)\.",
    "history": r"log\.(history|placements|past_states|records|rules|versions|changes)\.",
    "folds and the log": r"log\.(fold|state|stored|table_log|listing|slots|marks|keys|trimming)\.",
    "older versions": r"table\.(past|present)\.",
    "staged writes": r"jobs\.staged_writes\.|log\.registration\.|complete\.",
    "vacuums": r"vacuum\.",
    "erasures and certificates": r"jobs\.certificate\.|jobs\.rows\.erasure\.",
    "handovers": r"mirrors\.handover\.",
    "mirrors": r"mirrors\.",
    "rows by key": r"jobs\.rows\.(kept|snapshot|turns)\.",
    "Google's store": r"storage\.gcs",
}
"""As many mutants are drawn of each: a draw over all files alike hardly reaches the small ones."""
WANTED = 0.95
PAGE = Path("tests/mutants/survivors.md")
EXPLAINED = re.compile(
    r"^\*\*`(?P<function>\S+)`\*\*: (?P<reason>\S.*?)\n+```diff\n(?P<change>.*?)```", re.DOTALL | re.MULTILINE
)
NOT_DRAWN = 34  # mutmut's exit code for "skipped"
WORDS = matchers.Call(func=matchers.Attribute(value=matchers.Name("logger")))


def without_call(node: cst.Expr) -> Iterator[cst.Pass]:
    """Leave out a call whose value nobody takes, unless it only logs."""
    if isinstance(node.value, cst.Call) and not matchers.matches(node.value, WORDS):
        yield cst.Pass()


def without_raise(_: cst.Raise) -> Iterator[cst.Pass]:
    """Leave out a refusal."""
    yield cst.Pass()


def negated(node: cst.If) -> Iterator[cst.If]:
    """Turn a condition round; comparisons and ``not`` are mutmut's."""
    if not isinstance(node.test, cst.Comparison | cst.UnaryOperation):
        test = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        yield node.with_changes(test=cst.UnaryOperation(cst.Not(), test))


def survived(exit_code: int | None) -> bool:
    return mutmut.status_by_exit_code[exit_code] in {"survived", "no tests", "not checked", "suspicious"}


def prepare(how_many: int, rooms: list[str], *, seed: int, again: bool) -> None:
    """Make all mutants, and choose those to run; with ``again`` those that survived the last run."""
    os.environ["MUTANT_UNDER_TEST"] = "mutant_generation"
    copy_src_dir()
    copy_also_copy_files()
    setup_source_paths()
    mutmut.create_mutants(os.cpu_count() or 2)
    found = results()
    drawn = draw(sorted(found), how_many, rooms, random.Random(seed))
    for data in found.values():
        for name, code in data.exit_code_by_key.items():
            wanted = name in drawn and (not again or code is None or survived(code))
            data.exit_code_by_key[name] = None if wanted else code if again and name in drawn else NOT_DRAWN
    for data in {id(one): one for one in found.values()}.values():
        data.save()


def draw(names: list[str], how_many: int, rooms: list[str], chance: random.Random) -> set[str]:
    """Draw as many mutants of each room, or all that it has; the rest, unless rooms are named, of all that are left."""
    drawn: set[str] = set()
    for room in rooms:
        inside = [name for name in names if re.match(rf"table_writer\.(?:.*\.)?(?:{ROOMS[room]})", name)]
        if not inside:
            raise SystemExit(f"no mutant is in the room {room!r}: its files have moved")
        drawn |= set(chance.sample(inside, min(how_many // len(rooms), len(inside))))
    left = [name for name in names if name not in drawn] if len(rooms) == len(ROOMS) else []
    return drawn | set(chance.sample(left, min(how_many - len(drawn), len(left))))


def results() -> dict[str, SourceFileMutationData]:
    """Return every mutant's file, with the mutant's result in it."""
    found = {}
    for path in walk_mutatable_files():
        data = SourceFileMutationData(path=path)
        data.load()
        found |= dict.fromkeys(data.exit_code_by_key, data)
    return found


def change_of(name: str, path: Path) -> str:
    lines = get_diff_for_mutant(name, path=path).splitlines()
    return "\n".join(line for line in lines if line[:1] in "+-" and line[:3] not in {"+++", "---"})


def shown(name: str) -> str:
    """Return a mutant's function without what mutmut puts around its name."""
    module, _, function = name.removeprefix("table_writer.").rpartition(".")
    return f"{module}.{function.rpartition('__mutmut_')[0].removeprefix('x').strip('_ǁ').replace('ǁ', '.')}"


def report() -> int:
    """Print figures and the survivors without a reason, as the page wants them; 1 if that is not good enough."""
    explained = {(one["function"], one["change"].strip()) for one in EXPLAINED.finditer(PAGE.read_text())}
    drawn = {name: data for name, data in results().items() if data.exit_code_by_key[name] != NOT_DRAWN}
    statuses = Counter(mutmut.status_by_exit_code[data.exit_code_by_key[name]] for name, data in drawn.items())
    alive = [name for name, data in sorted(drawn.items()) if survived(data.exit_code_by_key[name])]
    left = {(shown(name), change_of(name, drawn[name].path)) for name in alive}
    for function, change in sorted(left - explained):
        print(f"\n**`{function}`**: \n\n```diff\n{change}\n```")
    killed = 1 - len(alive) / len(drawn)
    print(f"\n{len(drawn):,} of {len(results()):,} mutants: {dict(statuses)}, {killed:.1%} killed")
    print(
        f"{len(left - explained)} survivors have no reason in {PAGE}, and {len(explained - left)} there did not survive"
    )
    return int(bool(left - explained) or killed < WANTED)


def main() -> int:
    options = argparse.ArgumentParser(description="Mutation tests of the protocol")
    options.add_argument("--mutants", type=int, default=1_000, help="how many are drawn (default: 1,000)")
    options.add_argument(
        "--rooms", nargs="*", choices=ROOMS, metavar="ROOM", help=f"of these alone: {', '.join(ROOMS)}"
    )
    options.add_argument("--seed", type=int, default=SEED)
    options.add_argument("--again", action="store_true", help="run only those that survived the last run")
    options.add_argument("--children", type=int, default=os.cpu_count())
    given = options.parse_args()
    sys.path.remove(str(Path(__file__).parent))
    mutation_operators.extend([(cst.Expr, without_call), (cst.Raise, without_raise), (cst.If, negated)])
    if not given.again:
        shutil.rmtree("mutants", ignore_errors=True)
    Path("mutants").mkdir(exist_ok=True)
    Path("mutants/mutmut-stats.json").unlink(missing_ok=True)  # else new settings would make all mutants run
    prepare(given.mutants, given.rooms or list(ROOMS), seed=given.seed, again=given.again)
    mutmut._run((), given.children)
    return report()


if __name__ == "__main__":
    sys.exit(main())
