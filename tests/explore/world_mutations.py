"""Broken rules of unpartitioned tables, and of a catalog in which partitions switch one after another."""

from __future__ import annotations

from typing import Final

from .mutation import Mutation
from .search import Bound

COVERED_BELOW: Final = (
    "protocol.log.rules:_are_deleted_by",
    "if layout is None or layout.write_id_of(location) is not None",
    "",
)

MODES: Final = "tests/publish/test_modes.py"

MUTATIONS: Final = (
    Mutation(
        "an unpartitioned table is emptied, not dropped",
        "protocol.operations.since_plan:SincePlan.with_emptied_partitions",
        "nowhere = None if table.partition_columns else str(plan.data_location)",
        "nowhere = None",
        ("overwrite nothing",),
        Bound(0, 0),
        10,
        kind="root",
    ),
    Mutation(
        "the directory of a table without rows exists before readers are pointed there",
        "protocol.operations.publisher:_Publish.before_claim",
        'self.opened.store.put(f"{self.plan.data_location.key}{EMPTY_MARKER}", b"")',
        "pass",
        test=f"{MODES}::test_the_directory_of_a_table_without_rows_exists_before_its_version_is_claimed",
    ),
    Mutation(
        "a reader of the root does not look into the own directory",
        "protocol.vacuum.due:InUse._seen_from",
        "return self._inside if self._own.holds(place) else self._all",
        "return self._all",
        ("rollback to the beginning", "vacuum"),
        Bound(1, 1),
        100,
        kind="root",
    ),
    Mutation(
        "files of other tools in the root are no directory of ours: a write",
        *COVERED_BELOW,
        ("overwrite", "vacuum"),
        Bound(1, 1),
        500,
        seed=2,
        kind="root",
    ),
    Mutation(
        "files of other tools in the root are no directory of ours: an append in place",
        *COVERED_BELOW,
        ("append in place", "vacuum"),
        Bound(1, 1),
        500,
        kind="root",
    ),
    Mutation(
        "a recovery gives a table its columns with its location",
        "protocol.operations.switch:Switch._partition_change",
        "return with_columns_of(change, entry.schema, entry.columns_by)",
        "return change if entry.recovers else with_columns_of(change, entry.schema, entry.columns_by)",
        ("replace columns", "recover"),
        Bound(0, 1),
        200,
        kind="root",
    ),
    Mutation(
        "a rollback brings columns back with their rows",
        "protocol.operations.rollback:_Rollback.look",
        "**columns_of(history, version, now),",
        "",
        ("replace columns", "rollback"),
        Bound(0, 0),
        10,
        kind="root",
    ),
    Mutation(
        "a correction brings columns back with their rows",
        "protocol.operations.correction:Correction._correct",
        "entry=replace(record.entry, **columns_of(entries, oldest, now))",
        'entry=replace(record.entry, schema="")',
        ("old alter comes to other columns", "recover"),
        Bound(0, 0),
        10,
        kind="uncompared root",
    ),
    Mutation(
        "an older version is read with the columns that it had",
        "protocol.table.past:Past._schema_then",
        "columns.schema",
        '""',
        ("replace columns", "read older"),
        Bound(0, 0),
        10,
        kind="root",
    ),
    # batches
    Mutation(
        "batches: nothing is confirmed while a claim lasts",
        "protocol.operations.recovery:Recovery._has_taken_effect",
        "if entry.has_figures or not self._metastore.switches_at_once(table):",
        "if entry.has_figures:",
        ("overwrite", "append"),
        Bound(1, 1),
        1000,
        kind="batches",
    ),
    Mutation(
        "batches: a call without an answer is not sent again",
        "metastore.glue:GlueMetastore._send",
        'raise _lost_response(f"{what} got no answer: {error}", change.table) from error',
        'refused = dict.fromkeys(entries, ("ThrottlingException", str(error)))',
        ("append", "append", "recover"),
        Bound(0, 1),
        300,
        kind="batches",
    ),
    Mutation(
        "batches: what is seen after a lost answer proves nothing",
        "protocol.operations.switch:Switch._read_back",
        "if isinstance(error, LostResponseError) and not self.metastore.switches_at_once(table):",
        "if False:",
        test="tests/glue/test_answers.py::test_a_call_without_an_answer_is_in_doubt_though_all_of_it_is_seen",
    ),
    Mutation(
        "batches: what is refused in part is in doubt",
        "metastore.glue:GlueMetastore._carry_out_all",
        "if not applied.total():",
        "if True:",
        ("overwrite",),
        Bound(0, 1),
        300,
        kind="batches",
        also=(
            (
                "protocol.operations.switch:Switch._read_back",
                "seen is Effect.SOME or isinstance(error, LostResponseError) or changed",
                "isinstance(error, LostResponseError)",
            ),
        ),
    ),
    Mutation(
        "batches: each call is in time",
        "metastore.glue:GlueMetastore._carry_out_all",
        "self._carry_out(change, before_send, applied)",
        "self._carry_out(change, protocol.nothing if applied.total() else before_send, applied)",
        ("overwrite", "append"),
        Bound(1, 0),
        500,
        kind="batches",
    ),
)
