"""Rules of the loop, each broken for one claimant: what one leaves out, another must not make up for."""

from __future__ import annotations

from typing import Final

from .mutation import Mutation
from .search import Bound

ATTEMPT: Final = "protocol.loop:attempt"
BEFORE: Final = "draft = claimant.before_claim(found)"
CLAIM: Final = "if draft.is_claimed or _claim(claimant.opened, draft.entry):"
WAITS: Final = "if claimant.waits(view):"
DEADLINE: Final = "deadline = claimant.deadline(draft)"
CARRY_OUT: Final = "return claimant.carry_out(draft, deadline)"
TIMES: Final = "tests/publish/test_time_of_a_claim.py::test_whoever_was_paused_after_the_claim_changes_nothing_any_more"
HANDOVER: Final = "tests/mirrors/test_handover.py"
PUBLISHING: Final = {"_Publish": "write", "_Rollback": "rollback", "_Restore": "restore", "_Repeat": "recover"}
"""The claimants that change partitions, and what their calls are named in the test of their time."""


def left_out(claimant: str) -> str:
    """Return the line by which a claimant puts nothing before its claim."""
    return f"draft = found if type(claimant).__name__ == {claimant!r} else claimant.before_claim(found)"


def lost_and_gone_on(claimant: str) -> str:
    """Return the line by which a claimant goes on though its slot is another's."""
    return f"{CLAIM.removesuffix(':')} or type(claimant).__name__ == {claimant!r}:"


def never_waiting(claimant: str) -> str:
    """Return the line by which a claimant settles nothing before its claim."""
    return f"if type(claimant).__name__ != {claimant!r} and claimant.waits(view):"


def endless(claimant: str) -> str:
    """Return the line by which a claimant has all the time there is."""
    return f"deadline = Deadline(1e9) if type(claimant).__name__ == {claimant!r} else claimant.deadline(draft)"


def timed_late(claimant: str) -> str:
    """Return the line by which a claimant's time begins once its claim has an answer."""
    later = f"claimant.deadline(draft) if type(claimant).__name__ == {claimant!r} else deadline"
    return f"return claimant.carry_out(draft, {later})"


OF_TIME: Final = tuple(
    Mutation(f"{rule}: {name}", ATTEMPT, text, broken(claimant), test=f"{TIMES}[{name}]")
    for rule, text, broken in (
        ("nothing is sent after the time of its claim", DEADLINE, endless),
        ("the time of a claim begins before it is sent", CARRY_OUT, timed_late),
    )
    for claimant, name in PUBLISHING.items()
)
OF_LOOKS: Final = (
    Mutation(
        "a look adds no partition",
        "protocol.operations.publisher:_Publish._comes_first",
        "return Prepare(partial(self._add_unseen, table, not_shown))",
        "self._add_unseen(table, not_shown)\n        return AGAIN",
        ("overwrite table with d2 hidden",),
        kind="batches",
    ),
    Mutation(
        "a look corrects no late call",
        "protocol.operations.correction:Correction.needed",
        "return Prepare(partial(self._correct, table, history, placements, now))",
        "self._correct(table, history, placements, now)\n    return AGAIN",
        ("old alter comes", "append"),
        Bound(1, 0),
        100,
    ),
    Mutation(
        "a look takes no mark away",
        "protocol.operations.correction:Correction.needed",
        "return Prepare(partial(self._verify, table, history))",
        "self._verify(table, history)\n        return AGAIN",
        ("days pass", "append after a recovery"),
        Bound(1, 0),
        100,
    ),
)
OF_PROOFS: Final = (
    Mutation(
        "who does not know a word of an entry does not end it",
        "model.entry:require_understood",
        "if unknown:",
        "if False:",
        ("append by a newer library", "recover"),
        Bound(1, 1),
        200,
    ),
    Mutation(
        "a partition that was seen has to be proven gone anew",
        "protocol.operations.publisher:_Publish._comes_first",
        "self._added -= now.keys()",
        "pass",
        test="tests/glue/test_answers.py::test_a_partition_that_was_gone_at_one_look_is_proven_gone_at_the_next",
    ),
    Mutation(
        "what another tool has pointed readers back to is not erased",
        "protocol.vacuum.sweep:_Erasure._erasable",
        "if is_used(used, left):",
        "if False:",
        test="tests/maintenance/test_erasures.py::test_what_another_tool_has_pointed_readers_back_to_is_not_erased",
    ),
)
MUTATIONS: Final = (
    *OF_PROOFS,
    *OF_TIME,
    *OF_LOOKS,
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
    Mutation(
        "a rollback is claimed over no publish in doubt",
        ATTEMPT,
        WAITS,
        never_waiting("_Rollback"),
        ("append", "rollback"),
    ),
    Mutation(
        "a restore is claimed over no publish in doubt",
        ATTEMPT,
        WAITS,
        never_waiting("_Restore"),
        test="tests/maintenance/test_restore_in_doubt.py"
        "::test_an_entry_in_doubt_is_carried_out_whole_or_not_at_all[overwrite-d1 lost-2]",
    ),
    Mutation(
        "a vacuum looks whether a call came late, once none can come any more",
        ATTEMPT,
        WAITS,
        never_waiting("_Sweep"),
        test="tests/maintenance/test_vacuum.py"
        "::test_a_vacuum_takes_note_that_no_call_came_late_once_none_can_come_and_nothing_before_is_in_doubt",
    ),
    Mutation(
        "who has waited reads the log anew",
        ATTEMPT,
        WAITS,
        "if claimant.waits(view) and type(claimant).__name__ != '_Publish':",
        ("append", "overwrite"),
    ),
    Mutation(
        "a rollback that has lost its slot looks again",
        ATTEMPT,
        CLAIM,
        lost_and_gone_on("_Rollback"),
        ("append", "rollback"),
    ),
    Mutation(
        "a recovery that has lost its slot does nothing",
        ATTEMPT,
        CLAIM,
        lost_and_gone_on("_Repeat"),
        ("dying append", "recover", "recover"),
    ),
    Mutation(
        "an erasure that has lost its slot decides anew",
        ATTEMPT,
        CLAIM,
        lost_and_gone_on("_Erasure"),
        test="tests/maintenance/test_erasures.py"
        "::test_a_certificate_is_complete_only_if_no_reader_and_no_object_has_the_row[rollback-at the claim]",
    ),
    Mutation(
        "a handover that has lost its slot closes nothing",
        ATTEMPT,
        CLAIM,
        lost_and_gone_on("_Closing"),
        test=f"{HANDOVER}::test_a_claim_that_another_takes_leaves_no_mark_behind[delta]",
    ),
    Mutation(
        "a handover takes its mark back once its slot is another's",
        "mirrors.handover:_Closing.lost",
        "if self.closes_for:",
        "if False:",
        test=f"{HANDOVER}::test_a_claim_that_another_takes_leaves_no_mark_behind[delta]",
    ),
    Mutation(
        "a log is closed by its mark",
        ATTEMPT,
        BEFORE,
        left_out("_Closing"),
        test=f"{HANDOVER}::test_after_a_handover_nothing_of_this_library_writes[delta-overwrite]",
    ),
    Mutation(
        "a recovery is on record before its claim",
        ATTEMPT,
        BEFORE,
        left_out("_Repeat"),
        ("append", "recover", "append"),
    ),
    Mutation(
        "a vacuum deletes nothing after its own time",
        ATTEMPT,
        DEADLINE,
        endless("_Sweep"),
        test="tests/maintenance/test_vacuum.py::test_nothing_is_deleted_after_the_vacuums_own_time",
    ),
    Mutation(
        "a dry run ends nothing that is in doubt",
        "protocol.loop:preview",
        "found = claimant.look(claimant.read())",
        "claimant.waits(claimant.read())\n        found = claimant.look(claimant.read())",
        test="tests/maintenance/test_rollback.py::test_what_a_rollback_resolves_first_is_told",
    ),
    Mutation(
        "who stops a call while it claims is told what may have become of it",
        "protocol.loop:_claim",
        "raise with_note(stopped, entry) from None",
        "raise",
        test="tests/publish/test_time_of_a_claim.py"
        "::test_a_call_that_is_stopped_while_it_claims_says_what_may_have_become_of_it",
    ),
    Mutation(
        "of a vacuum's claim without an answer nobody says that it may be published",
        "protocol.loop:_claim",
        "    except StorageError as error:\n        if not entry.meaning.changes_partitions:\n            raise\n",
        "    except StorageError as error:\n",
        test="tests/publish/test_time_of_a_claim.py"
        "::test_of_a_vacuum_without_an_answer_nothing_is_said_that_would_be_untrue",
    ),
)
