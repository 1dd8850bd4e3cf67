"""Broken rules about late calls, damage, other tools' rows, and appends in place."""

from __future__ import annotations

from typing import Final

from .mutation import Mutation
from .mutations import CONFIRMED
from .search import Bound

NOT_COUNTED: Final = (
    "steps.publish.entry:files_there",
    "if (len(found), sum(file.size_bytes for file in found)) != (known.files, known.bytes):",
    "if False:",
)
"""What is put back is counted and measured: the second guard of which files are of which version."""
MUTATIONS: Final = (
    Mutation(
        "late calls count until somebody has looked",
        "steps.publish.correction:Correction.correct",
        "if not moved and not listing.unverified:",
        "if not moved and not any(map(self._log.marks.may_calls_come, listing.unverified)):",
        ("overwrite", "append", "days pass", "append"),
        Bound(2, 1),
        2000,
        also=(CONFIRMED,),
    ),
    Mutation(
        "nobody verifies while a call may come",
        "steps.publish.correction:Correction._can_verify",
        "and not self._log.marks.may_calls_come(max(history.unverified or ()))",
        "",
        ("overwrite", "append", "append"),
        Bound(2, 1),
        1500,
        also=(CONFIRMED,),
    ),
    Mutation(
        "who verifies compares all partitions",
        "steps.publish.correction:Correction._verify",
        "self._placements(history, known, now)",
        "self._placements(history, sorted(known)[:1], now)",
        ("overwrite d2 d3", "append d2 d3"),
        Bound(2, 1),
        1500,
        also=(CONFIRMED,),
    ),
    Mutation(
        "what newer entries cover is not done again",
        "steps.publish.recovery:Recovery._end_last",
        "if rules.is_covered(history, last.entry):",
        "if False:",
        ("overwrite", "lose outcome", "recover"),
        Bound(1, 1),
        500,
    ),
    Mutation(
        "what was claimed over an entry covers it, though it is in doubt",
        "log.rules:_covers",
        "return record.outcome is not Outcome.ABANDONED",
        "return record.outcome is Outcome.PUBLISHED",
        ("overwrite", "lose outcome", "recover"),
        Bound(2, 1),
        1000,
    ),
    Mutation(
        "an outcome is rebuilt by what came after the entry",
        "log.rules:rebuilt_outcome",
        "return Outcome.PUBLISHED, frozenset()\n    return",
        "return Outcome.ABANDONED, frozenset()\n    return",
        ("overwrite", "lose outcome", "overwrite", "recover"),
        Bound(2, 1),
        1000,
    ),
    Mutation(
        "each partition has a placeholder of its own",
        "steps.publish.switch:Switch._empty",
        "partition.values",
        "('p',)",
        test="tests/publish/test_between_calls.py"
        "::test_a_partition_into_which_another_tool_inserts_before_it_is_dropped_stays",
    ),
    Mutation(
        "an append lists placeholders",
        "steps.publish.publisher:Publisher._look",
        "carried = leaving if plan.mode.facts.keeps_rows else {}",
        "carried = {v: one for v, one in leaving.items() if '/empty/' not in one.location}"
        " if plan.mode.facts.keeps_rows else {}",
        ("append d2 d3", "insert d3", "append d2 d3"),
        Bound(1, 1),
        1000,
    ),
    Mutation(
        "what was planned in another log conflicts",
        "steps.publish.publisher:Publisher._refuse_other_log",
        "listing.newest < plan.base_version or (plan.log_id and plan.log_id not in listing.ids)",
        "False",
        ("publish overwrite", "begin again"),
        Bound(0, 0),
        100,
    ),
    # in place
    Mutation(
        "nothing is copied before the metastore has answered",
        "steps.publish.switch:ClaimedEntries.switch",
        "notes = self._switch.apply(table, entry, now, deadline)\n        self._add_files(entry, files, deadline)",
        "self._add_files(entry, files, deadline)\n        notes = self._switch.apply(table, entry, now, deadline)",
        ("append in place",),
    ),
    Mutation(
        "a copy without an answer leaves the entry in doubt",
        "steps.publish.switch:ClaimedEntries._add_files",
        "raise outcome_unknown(entry, error) from error",
        "pass",
        ("append in place",),
    ),
    Mutation(
        "nothing is confirmed before its files are there",
        "steps.publish.recovery:Recovery._has_taken_effect",
        "whole_partitions(self._opened.store, entry.partitions)",
        "frozenset(one.values for one in entry.partitions)",
        ("append in place", "append in place"),
    ),
    Mutation(
        "what was begun is rolled forward",
        "steps.publish.evidence:Evidence.why_not_carried_out",
        "and not partition.added",
        "",
        ("append in place", "recover"),
        Bound(2, 1),
        500,
    ),
    Mutation(
        "a rollback copies where later files lie",
        "log.past_states:PastStates.surplus_names",
        "return frozenset(file.name for _, _, partition in appends for file in partition.added) - part",
        "return frozenset()",
        ("append in place", "rollback", "append"),
        Bound(1, 1),
        300,
        also=(NOT_COUNTED,),
    ),
    Mutation(
        "a rollback that a vacuum has given up stops",
        "steps.publish.rollback:roll_back",
        "if found != copied_of or place in history.state.deleted_places or place in history.state.doomed_places:",
        "if found != copied_of:",
        ("rollback of files", "vacuum"),
        Bound(1, 0),
        300,
    ),
    Mutation(
        "a vacuum spares sources of what is in doubt",
        "log.history:History.in_use",
        "for location in partition.locations)",
        "for location in (partition.old_location, partition.new_location) if location)",
        ("publish in place after a refusal", "days pass", "vacuum"),
        Bound(0, 1),
        500,
        also=(("steps.vacuum.due:due_locations", "elif write_id in staged:", "elif False:"),),
    ),
    Mutation(
        "a vacuum deletes what an abandoned rollback has copied",
        "log.state:TableState._apply_abandoned",
        "copies = [location for location in own if data.contains(location)]",
        "copies = []",
        ("append in place", "rollback"),
    ),
    Mutation(
        "an outcome is rebuilt by files: what was published",
        "steps.publish.recovery:Recovery._rebuild",
        "is_copied(history, partition, missing)",
        "False",
        ("append in place", "lose outcome", "overwrite", "recover"),
        Bound(2, 1),
        500,
    ),
    Mutation(
        "nothing is added to what a late alter has brought back",
        "steps.publish.publisher:Publisher._look",
        "if is_building and self._correction.correct(table, values, now, listing):",
        "if False:",
        ("overwrite", "append", "append in place"),
        also=(CONFIRMED,),
        schedules=1000,
    ),
    Mutation(
        "a key is looked for behind a rollback",
        "steps.publish.publisher:Publisher._repetition",
        "return self._opened.log.find_key(key) if rolled_back else published_with_key(records, key)",
        "return published_with_key(records, key)",
        ("append once after a rollback", "rollback"),
    ),
    # folds
)
