"""Broken rules that show only after a long story: what comes before is done, and few deviations are left to find."""

from __future__ import annotations

from typing import Final

from .late_mutations import NOT_COUNTED
from .mutation import Mutation
from .mutations import CONFIRMED
from .search import Bound

NOT_LOST: Final = ("publish.evidence:Evidence.lost_files", "return lost", "return {}")
"""A recovery looks whether files are there: the second guard of what must not be done again."""

NO_WORD: Final = ("publish.recovery:Recovery._end_last", "if word == last.entry.write_id:", "if False:")
"""Whoever was refused has taken the last word: the third guard, while that mark is there."""
BETWEEN_CALLS: Final = "tests/publish/test_between_calls.py"
FILES_THERE: Final = "tests/publish/test_files_there.py"
MUTATIONS: Final = (
    Mutation(
        "an append looks again after copying",
        "publish.publisher:Publisher._look",
        "if self._brings(carry_over, carried, targets, state):\n            return None",
        "if self._brings(carry_over, carried, targets, state):\n"
        "            newest = self._opened.log.read_state(listed_after=state.listed_after).newest\n"
        "            draft = replace(draft, version=newest + 1)",
        ("append", "overwrite"),
        Bound(2, 0),
        400,
    ),
    Mutation(
        "a publisher looks for entries of its own write",
        "publish.publisher:Publisher.publish",
        "if is_shared:",
        "if False:",
        ("publish", "publish"),
        schedules=100,
        also=(("write.staged_writes:StagedWrites._publish", "publisher.require_unpublished(record.plan)", "pass"),),
    ),
    Mutation(
        "no metastore change without a claim",
        "publish.publisher:Publisher.publish",
        "if not self._claimed.claim(look.entry):",
        "if False:",
        ("overwrite",),
    ),
    Mutation(
        "what a vacuum deletes is not done again",
        "log.rules:is_covered",
        "return _delete((one.entry for one in newer), entry, history.layout) or any(",
        "return any(",
        ("refusal lost after a vacuum", "recover"),
        Bound(0, 0),
        10,
        also=(NOT_LOST, NO_WORD),
    ),
    Mutation(
        "a recovery switches all partitions in one call, also what is done",
        "log.rules:to_switch",
        "if state not in others)",
        "if state in {PartitionState.BEFORE, PartitionState.EMPTIED})",
        test="tests/log/test_rules.py::test_a_recovery_sends_all_but_what_others_moved_and_nothing_where_nothing_is_left",
    ),
    Mutation(
        "nothing is confirmed that a late call may have done",
        "publish.recovery:Recovery._has_taken_effect",
        "is Effect.ALL and not (\n        self._log.read_state(listed_after=entry.version).unverified\n    )",
        "is Effect.ALL",
        ("publish after its old call", "append d1"),
        Bound(1, 0),
        200,
    ),
    Mutation(
        "what undoes a late call ends within its claim",
        "publish.recovery:Recovery._is_wordless",
        'and record.entry.recovered_write_id != ""',
        "",
        ("append d1", "publish after its old call"),
        Bound(1, 0),
        200,
    ),
    Mutation(
        "nobody verifies while anything is in doubt",
        "publish.recovery:Recovery.correct",
        "is_alone and self._can_verify(history)",
        "self._can_verify(history)",
        ("overwrite d1", "append after an old call"),
        Bound(2, 0),
        300,
    ),
    Mutation(
        "a placeholder is as good as no partition",
        "log.history:History.placement",
        "if current is not None and not self.layout.is_placeholder(current):",
        "if current is not None:",
        ("old drop comes", "overwrite"),
        Bound(1, 1),
        100,
    ),
    Mutation(
        "a placeholder is listed before it is dropped",
        "publish.switch:Switch._drop",
        "values not in written and",
        "",
        test=f"{BETWEEN_CALLS}::test_a_partition_into_which_another_tool_inserts_before_it_is_dropped_stays",
    ),
    Mutation(
        "what is emptied already stays where it is",
        "publish.switch:Switch._changed",
        "current.location if is_empty else self._empty(entry, partition)",
        "self._empty(entry, partition)",
        test=f"{BETWEEN_CALLS}::test_a_recovery_that_drops_partitions_leaves_one_into_which_another_tool_has_inserted",
    ),
    Mutation(
        "no publisher points readers at copies that a vacuum has given up",
        "log.rules:standing",
        "_delete([entry], draft, layout",
        "_delete([entry], __import__('dataclasses').replace(draft, partitions=()), layout",
        schedule="publish, vacuum: 0@22>>>1 1@47>0",
    ),
    Mutation(
        "a restore shows no files of an abandoned entry",
        "publish.restore:_check",
        "if there.others:",
        "if False:",
        test=f"{FILES_THERE}::test_a_restore_shows_no_files_of_an_append_in_place_that_was_given_up",
    ),
    Mutation(
        "a rollback copies where abandoned files may come",
        "log.history:History.surplus",
        "if record.outcome is not Outcome.ABANDONED or record.recorded_by != record.entry.write_id",
        "if record.outcome is not Outcome.ABANDONED",
        test=f"{FILES_THERE}::test_a_rollback_leaves_out_files_of_an_append_in_place_that_was_given_up",
        also=(NOT_COUNTED,),
    ),
    Mutation(
        "what a recovery names is of the version that it finishes",
        "log.history:History.surplus",
        "frozenset(one.name for _, _, named in adding for one in named.added) - part",
        "frozenset(one.name for _, by, named in adding if by.entry.version > version for one in named.added)",
        ("rollback to what was recovered",),
        Bound(0, 0),
        10,
        also=(NOT_COUNTED,),
    ),
    Mutation(
        "what was superseded is no part of any version",
        "log.history:History.surplus",
        "and named.values not in record.superseded",
        "",
        test="tests/log/test_history.py::test_files_of_appends_in_place_that_are_no_part_of_a_version_are_surplus",
    ),
    Mutation(
        "nothing is added to what a vacuum deletes",
        "publish.publisher:Publisher.publish",
        "self._first_in_doubt(look.entry, records, staged.plan)",
        "pass",
        test=f"{BETWEEN_CALLS}::test_nothing_is_added_where_a_vacuum_is_deleting",
    ),
    Mutation(
        "an entry whose source a vacuum deletes is not done again",
        "log.rules:_delete",
        "for text in (one.new_location, one.source)",
        "for text in (one.new_location,)",
        ("refusal in place lost after a vacuum", "recover"),
        bound=Bound(0, 0),
        schedules=10,
        also=(NOT_LOST, NO_WORD),
    ),
    Mutation(
        "an outcome is rebuilt by files: what was refused",
        "publish.recovery:Recovery._rebuild",
        "is_copied(history, one, missing)",
        "True",
        ("refusal lost under an append", "recover"),
        Bound(0, 0),
        10,
        also=(NO_WORD,),
    ),
    Mutation(
        "an outcome is rebuilt by a log that was read after the files",
        "publish.recovery:Recovery._rebuild",
        "if in_place:",
        "if False:",
        schedule="vacuum, recover, lose older outcome: 0@22>2 0@23>1 1@25>0",
    ),
    Mutation(
        "a call without an answer counts by the parameters",
        "publish.switch:Switch._read_back",
        "frozenset(one.values for one in is_sent)",
        "entry.partition_values",
        schedule="append in place, overwrite, append: 0@37!late 2@1~",
        also=(CONFIRMED,),
    ),
    Mutation(
        "nobody is told that what is on record as abandoned is published",
        "publish.switch:ClaimedEntries.carry_out",
        "require_all_published(entry, ended, table)",
        "pass",
        test="tests/publish/test_acknowledged.py::test_a_claimant_that_was_paused_is_told_what_a_recovery_has_recorded",
    ),
    Mutation(
        "an entry without partitions is not superseded",
        "publish.recovery:Recovery._record_outcome",
        "bool(superseded) and len(superseded)",
        "len(superseded)",
        ("overwrite nothing", "recover"),
        Bound(1, 1),
        200,
    ),
    Mutation(
        "what is in doubt is not folded",
        "log.rules:foldable",
        "min((one.entry.version for one in history.in_doubt), default=history.newest) - 1",
        "history.newest - 1",
        test="tests/log/test_fold.py::test_what_is_in_doubt_is_not_folded",
        also=(("log.table_log:TableLog.save_fold", "if not agree(", "if False and not agree("),),
    ),
    Mutation(
        "what a recovery has ended is folded once it is verified",
        "log.rules:foldable",
        "[] if history.unverified else [one",
        "[one",
        test="tests/log/test_fold.py::test_nothing_is_folded_while_a_call_may_come_late",
        also=(
            (
                "log.table_log:TableLog.save_fold",
                'if not version or self._marks(one.key for one in self._list_marks())["recovered"]:',
                "if not version:",
            ),
        ),
    ),
    Mutation(
        "the entries say how a partition came to an older place of ours",
        "log.history:History.needs_entries",
        "self.fold is not None and any(",
        "False and any(",
        test="tests/log/test_fold.py::test_a_metastore_that_was_set_back_is_corrected_though_the_log_is_folded",
    ),
    Mutation(
        "the entries say which files of an append in place count that was done again",
        "log.rules:counts_twice",
        "return any(partition.added",
        "return False and any(partition.added",
        test="tests/log/test_fold.py::test_files_of_an_append_in_place_that_was_done_again_count_once_though_it_is_folded",
    ),
    Mutation(
        "nobody takes the slot of a lost entry",
        "log.table_log:TableLog._list",
        "max(entries | outcomes, default=start)",
        "max(entries, default=start)",
        test="tests/maintenance/test_damage.py::test_a_damaged_object_loses_no_row_that_was_acknowledged[rolled_back_last]",
    ),
    Mutation(
        "statistics: nothing is confirmed before the second alter",
        "publish.recovery:Recovery._has_taken_effect",
        "if entry.has_figures or not",
        "if not",
        ("overwrite with figures", "append"),
        schedules=300,
    ),
    Mutation(
        "no discard of what an entry of another name has replaced",
        "log.history:History._ids_of",
        "found | own | recovered",
        "own | recovered",
        test="tests/log/test_history.py::test_a_write_is_known_by_its_own_name_and_by_every_location_that_an_entry_names",
    ),
)
