"""Rules of the loop, each broken for one claimant: what one leaves out, another must not make up for."""

from __future__ import annotations

from typing import Final

from .mutation import Mutation
from .search import Bound

ATTEMPT: Final = "protocol.loop:attempt"
BEFORE: Final = "draft = claimant.before_claim(found)"
CLAIM: Final = "if draft.is_claimed or _claim(claimant.opened, draft.entry):"


def left_out(claimant: str) -> str:
    """Return the line by which a claimant puts nothing before its claim."""
    return f"draft = found if type(claimant).__name__ == {claimant!r} else claimant.before_claim(found)"


def lost_and_gone_on(claimant: str) -> str:
    """Return the line by which a claimant goes on though its slot is another's."""
    return f"{CLAIM.removesuffix(':')} or type(claimant).__name__ == {claimant!r}:"


MUTATIONS: Final = (
    Mutation(
        "a publish ends what it meets in doubt",
        ATTEMPT,
        "if claimant.waits(view):",
        "if type(claimant).__name__ != '_Publish' and claimant.waits(view):",
        ("append", "append"),
        Bound(1, 1),
        400,
    ),
    Mutation(
        "files are the log's while their claim is under way",
        ATTEMPT,
        "with claimant.owning(draft) as lost:",
        "from contextlib import nullcontext\n    with nullcontext(lambda: None) as lost:",
        ("append", "recover"),
        Bound(1, 1),
        400,
    ),
    Mutation(
        "files of a slot that was lost are the write's again",
        ATTEMPT,
        "        lost()",
        "        pass",
        test="tests/publish/test_conflicts.py::test_a_write_that_lost_its_slot_and_gives_up_leaves_no_files",
    ),
    Mutation(
        "a claim without an answer may stand",
        "protocol.loop:_claim",
        "raise outcome_unknown(entry, error) from error",
        "raise",
        ("append", "recover"),
        Bound(1, 1),
        400,
    ),
    Mutation(
        "a rollback looks again once its copies are made",
        ATTEMPT,
        BEFORE,
        left_out("_Rollback"),
        test="tests/maintenance/test_rollback.py::test_a_move_while_files_are_listed_is_noticed",
    ),
    Mutation(
        "a restore points at copies that are there",
        ATTEMPT,
        BEFORE,
        left_out("_Restore"),
        test="tests/publish/test_files_there.py::test_a_restore_shows_no_files_of_an_append_in_place_that_was_given_up",
    ),
    Mutation(
        "mirrors follow before a vacuum claims",
        ATTEMPT,
        BEFORE,
        left_out("_Sweep"),
        test="tests/mirrors/test_vacuum.py::test_the_mirror_is_brought_up_before_files_go_also_where_no_setting_names_it",
    ),
    Mutation(
        "a restore that has lost its slot looks again",
        ATTEMPT,
        CLAIM,
        lost_and_gone_on("_Restore"),
        test="tests/publish/test_files_there.py::test_a_restore_that_loses_its_slot_looks_again",
    ),
    Mutation(
        "a vacuum that has lost its slot decides anew",
        ATTEMPT,
        CLAIM,
        lost_and_gone_on("_Sweep"),
        test="tests/maintenance/test_look_again.py::test_a_vacuum_that_loses_its_slot_decides_anew",
    ),
    Mutation(
        "a dry run claims nothing",
        "protocol.loop:preview",
        "found = claimant.look(claimant.read())",
        "return run(claimant)",
        test="tests/maintenance/test_rollback.py::test_a_dry_run_changes_nothing_and_says_the_same",
    ),
)
