"""Broken rules of the switch, of vacuums beside it, of what writes build on and of staged writes."""

from __future__ import annotations

from typing import Final

from .mutation import Mutation
from .mutations import CONFIRMED
from .search import Bound

NOT_EXACTLY: Final = (
    "steps.publish.append:CarryOver._require_exactly",
    "if not self._partition_places and not self.is_shared:",
    "if True:",
)
LOG: Final = "self.counts.__self__._log"

ON_A_RESULT: Final = (
    "tests/publish/test_conflicts.py"
    "::test_rows_based_on_a_result_have_not_seen_what_had_claimed_before_it_and_came_after"
)

NAMES: Final = "tests/maintenance/test_names_of_callers.py"
ROLLBACK: Final = "tests/maintenance/test_rollback.py"

MUTATIONS: Final = (
    Mutation(
        "which write a file is of is told by where its name has the id",
        "model.message:write_id_in",
        "write_id in ids if OWN_WRITE_ID.fullmatch(write_id) or write_id in known_ids",
        "write_id in (*ids, *known_ids) if OWN_WRITE_ID.fullmatch(write_id) or write_id in name",
        test=f"{NAMES}::test_a_vacuum_aborts_no_upload_of_another_tool_whatever_a_write_is_called",
    ),
    Mutation(
        "a partition is as it was only with its files",
        "steps.publish.rollback:_checked_partitions",
        "elif wanted is not None and opened.layout.all_data.contains(Location.parse(wanted)):",
        "elif False:",
        test=f"{ROLLBACK}::test_a_partition_that_is_back_where_it_was_without_its_files_is_named_beside_others",
    ),
    Mutation(
        "a rollback with nothing to do has looked at every partition",
        "steps.publish.rollback:roll_back",
        "_require_as_it_was(opened, history, version, chosen, targets, here)",
        "pass",
        test=f"{ROLLBACK}::test_nothing_is_said_to_be_as_it_was_whose_files_are_gone",
    ),
    Mutation(
        "a recovery has not found its partitions where the entry that it does again had found them",
        "log.past_states:PastStates._sights",
        "before = partition.new_location if is_recovery else partition.old_location",
        "before = partition.old_location",
        test=f"{ROLLBACK}::test_a_version_between_a_write_and_its_recovery_is_one_to_go_back_to",
    ),
    Mutation(
        "who goes by the number of a version has not seen what was published after it, whatever its own number",
        "log.table_log:TableLog.unseen_at",
        "return entry.in_doubt if entry is not None else frozenset()",
        "return frozenset()",
        test=ON_A_RESULT,
    ),
    Mutation(
        "an entry says what had not ended when it was claimed",
        "steps.publish.publisher:_after",
        "if record.outcome is None",
        "if False",
        test=ON_A_RESULT,
    ),
    Mutation(
        "nothing is applied again after publishing",
        "steps.publish.switch:ClaimedEntries.carry_out",
        "require_all_published(entry, stored_outcome, table)",
        "self._switch.apply(table, entry, now, deadline)",
        ("overwrite", "append"),
    ),
    Mutation(
        "placeholders stay after a refusal",
        "steps.publish.switch:ClaimedEntries.switch",
        "self.abandon(entry, failure)",
        "there = self._switch.metastore.get_partitions(table, [one.values for one in entry.partitions])\n"
        "            for values, one in there.items():\n"
        "                entry.write_id in one.location and self._switch.metastore.drop_partition(table, values)\n"
        "            self.give_up(entry, failure)",
        ("append d2 d3", "overwrite d2 d3"),
        Bound(2, 1),
        1000,
    ),
    Mutation(
        "one alter for all partitions",
        "steps.publish.switch:Switch._alter",
        "return self.metastore.alter_partitions(table, changes, before_send=in_time)",
        "return [self.metastore.alter_partitions(table, [one], before_send=in_time) for one in changes] and None",
        ("overwrite",),
    ),
    Mutation(
        "new partitions come empty",
        "steps.publish.switch:Switch._alter",
        "location=self._empty(entry, partition)",
        "location=str(partition.new_location)",
        ("append d2 d3",),
    ),
    Mutation(
        "an outcome is recorded after the drop",
        "steps.publish.switch:Switch.apply",
        "return self._drop(table, entry, in_time)",
        f"{LOG}.record_outcome(entry.version, Outcome.PUBLISHED, write_id=entry.write_id, of=entry.write_id)\n"
        "    return self._drop(table, entry, in_time)",
        ("overwrite table", "overwrite"),
        Bound(2, 1),
        1000,
    ),
    Mutation(
        "a drop without an answer leaves the entry in doubt",
        "steps.publish.switch:Switch._drop",
        'return (f"{todo} `table-writer recover` does it.",)',
        "return ()",
        ("overwrite table", "append"),
    ),
    Mutation(
        "a late drop is repaired",
        "log.placements:Placements.correction_of",
        "if place not in calls or place == wanted:",
        "if place is None or place not in calls or place == wanted:",
        ("old drop comes", "recover"),
        Bound(0, 0),
        100,
    ),
    Mutation(
        "a late alter is repaired",
        "log.placements:Placements.correction_of",
        "if place not in calls or place == wanted:",
        "if place is not None or place not in calls:",
        ("old alter comes", "recover"),
        Bound(0, 0),
        100,
    ),
    Mutation(
        "a recovery tells a late alter from another tool",
        "log.rules:recovered_state",
        "return PartitionState.BEFORE if ours else state",
        "return state",
        ("old alter comes", "overwrite", "recover"),
        Bound(2, 1),
        1000,
    ),
    Mutation(
        "a call that changed one partition changed all",
        "log.rules:effect",
        ".get(frozenset(changed), Effect.SOME)",
        ".get(frozenset(changed), Effect.NONE)",
        ("overwrite", "move"),
        Bound(2, 1),
        500,
        also=(("steps.publish.switch:Switch._read_back", "or changed:", ":"),),
    ),
    Mutation(
        "a vacuum looks at the metastore",
        "steps.vacuum.due:in_use",
        "return InUse(history.layout, live | history.in_use() | hidden_places)",
        "return InUse(history.layout, history.in_use() | hidden_places)",
        ("point back", "vacuum"),
        Bound(1, 0),
        100,
    ),
    Mutation(
        "a vacuum spares what is in doubt",
        "log.history:History.in_use",
        "for record in self.records.in_doubt for",
        "for record in () for",
        ("rollback far", "vacuum"),
    ),
    Mutation(
        "a vacuum waits until no call can be late",
        "steps.vacuum.due:due_locations",
        "elif is_young and not is_doomed:",
        "elif False:",
        ("overwrite", "vacuum"),
    ),
    Mutation(
        "no rollback to what a vacuum deletes",
        "steps.publish.rollback:_check",
        "and not history.past.is_restorable(location)",
        "and False",
        ("rollback further", "vacuum"),
        Bound(2, 0),
        1000,
    ),
    Mutation(
        "no rollback to what a vacuum may be deleting",
        "log.past_states:PastStates.is_restorable",
        "return is_there and location.place not in state.doomed_places",
        "return is_there",
        ("rollback further", "vacuum"),
        Bound(2, 0),
        1000,
    ),
    # modes
    Mutation(
        "an append brings along what is there",
        "steps.publish.publisher:Publisher._look",
        "carried = leaving if plan.mode.facts.keeps_rows else {}",
        "carried = {}",
        ("append",),
    ),
    Mutation(
        "what is not there any more is not among the copies",
        "steps.publish.append:CarryOver._may_grow",
        "return place.copied is not None and place.copied.items() <= files.items()",
        "return True",
        ("append", "overwrite"),
        also=(NOT_EXACTLY,),
    ),
    Mutation(
        "no append to what a late alter has brought back",
        "steps.publish.publisher:Publisher._look",
        "if is_building and self._correction.correct(table, values, now, listing):",
        "if False:",
        ("overwrite", "append", "append"),
        also=(CONFIRMED,),
        schedules=1000,
    ),
    Mutation(
        "no creation where a late drop has taken rows away",
        "steps.publish.publisher:Publisher._look",
        "if is_building and self._correction",
        "if plan.mode.facts.keeps_rows and self._correction",
        ("old drop comes", "create d2"),
        Bound(1, 1),
        schedules=300,
    ),
    Mutation(
        "a creation adds and alters nothing",
        "steps.publish.switch:Switch.apply",
        "if now:",
        "if True:",
        ("create", "move d3"),
        Bound(1, 0),
        500,
    ),
    Mutation(
        "an overwrite of the table conflicts with every newer entry",
        "log.rules:standing",
        "or scope(entry.partition_values)",
        "",
        ("overwrite table", "append d2 d3"),
        also=(
            (
                "steps.publish.publisher:Publisher.publish",
                "self._first_in_doubt(look.entry, records, staged.plan)",
                "pass",
            ),
        ),
    ),
    Mutation(
        "a replaced set of partitions conflicts with every newer entry of it",
        "log.rules:standing",
        "or scope(entry.partition_values)",
        "",
        ("overwrite where", "append d2 d3"),
        also=(
            (
                "steps.publish.publisher:Publisher.publish",
                "self._first_in_doubt(look.entry, records, staged.plan)",
                "pass",
            ),
        ),
    ),
    Mutation(
        "what a table loses is emptied in the same alter",
        "steps.publish.switch:Switch._alter",
        "if partition.values in present)",
        "if partition.values in present and partition.new_location)",
        ("overwrite table",),
    ),
    Mutation(
        "the base version is fixed before the key is looked for",
        "table.open_table:OpenTable.require_new_key",
        "return self.log.lister.with_checkpoint(recent.listing)",
        "return self.log.lister.read()",
        ("append once", "append once"),
    ),
    Mutation(
        "the key of an abandoned entry is void",
        "log.rules:is_kept",
        "record.outcome is Outcome.PUBLISHED and any(",
        "record.outcome is not None and any(",
        ("append once", "append once"),
    ),
    Mutation(
        "a write waits for an entry in doubt that has its key",
        "log.rules:standing",
        "same_key = draft.key.is_of(entry)",
        "same_key = False",
        ("append once", "append once d3"),
    ),
    # staged
    Mutation(
        "who cannot resolve its own write's entry does not know the outcome",
        "steps.publish.publisher:Publisher._resolve_other",
        "if plan.write_id in written_ids(plan.layout, entry):",
        "if False:",
        ("publish", "publish"),
        Bound(2, 2),
        1000,
    ),
    Mutation(
        "no discard without a claim",
        "steps.vacuum.sweep:Vacuum.give_up",
        "if self._log.slots.claim(entry):",
        "if self._log.slots.claim(entry) or True:",
        ("publish", "discard"),
        schedules=500,
    ),
    Mutation(
        "no discard without a claim, also after a refusal",
        "steps.vacuum.sweep:Vacuum.give_up",
        "deletes = self._deletes(plan)",
        "if plan.kept: return plan\n        deletes = self._deletes(plan)",
        ("publish after a refusal", "discard"),
        Bound(1, 0),
        300,
    ),
    Mutation(
        "each publisher of a staged append copies into a directory of its own",
        "steps.running_write:Claiming.fresh_directory",
        "write_id=new_write_id()",
        "write_id='20240101T000000-9999999999999999'",
        ("publish", "publish", "overwrite"),
        Bound(2, 1),
        1000,
    ),
    Mutation(
        "no staged append copies beside what was staged",
        "steps.publish.append:CarryOver._may_grow",
        "return not self.is_shared",
        "return True",
        ("publish", "publish", "overwrite"),
        Bound(2, 1),
        1000,
        also=(NOT_EXACTLY,),
    ),
    Mutation(
        "the record of a staged write has a key that no sign of life has",
        "model.write:TableLayout.staged_key",
        "{self.all_staged.key}",
        "{self.registrations.key}",
        ("stage", "vacuum"),
        Bound(2, 1),
        500,
    ),
    Mutation(
        "a vacuum spares what is staged",
        "steps.vacuum.due:due_locations",
        "elif write_id in staged:",
        "elif False:",
        ("publish overwrite", "days pass", "vacuum"),
        Bound(0, 1),
        500,
    ),
)
