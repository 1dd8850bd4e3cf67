"""Broken rules of claims, conflicts, outcomes, recoveries, keys and vacuums, each with the actors who notice it."""

from __future__ import annotations

from typing import Final

from .mutation import Mutation
from .search import Bound

CONFIRMED: Final = (
    "protocol.operations.base:confirmed_partitions",
    "log = _RecentEntries(opened, newest)",
    "return now",
)
"""An append asks the log about what a metastore shows: the second guard of all that concerns late calls."""

NOT_GROWN: Final = (
    "protocol.operations.base:has_grown",
    "if not _unknown_publishes(opened, now, end.newest, compares=compares):",
    "if True:",
)
"""A version that partitions show, and that was not listed, means listing again: another guard of a claim's basis."""

MUTATIONS: Final = (
    # Claims
    Mutation(
        "a correction claims after the listing that the look began with",
        "protocol.operations.correction:Correction.needed",
        "history.newest > listing.newest",
        "False",
        ("append after a recovery", "rollback far"),
        Bound(2, 0),
        1_500,
        also=(NOT_GROWN,),
    ),
    Mutation(
        "a lost slot means reading the log again",
        "protocol.loop:attempt",
        "if draft.is_claimed or _claim(claimant.opened, draft.entry):",
        "if draft.is_claimed or _claim(claimant.opened, draft.entry) or type(claimant).__name__ == '_Publish':",
        ("overwrite", "overwrite"),
    ),
    Mutation(
        "no recovery without a claim",
        "protocol.loop:attempt",
        "if draft.is_claimed or _claim(claimant.opened, draft.entry):",
        "if draft.is_claimed or _claim(claimant.opened, draft.entry) or type(claimant).__name__ == '_Repeat':",
        ("append", "recover", "recover"),
        schedules=1_500,
    ),
    Mutation(
        "no rollback without a claim",
        "protocol.loop:attempt",
        "if draft.is_claimed or _claim(claimant.opened, draft.entry):",
        "if draft.is_claimed or _claim(claimant.opened, draft.entry) or type(claimant).__name__ == '_Rollback':",
        ("rollback", "overwrite"),
    ),
    Mutation(
        "nothing is sent after the claim's timeout",
        "protocol.operations.switch:Switch.require_time",
        "if not deadline.allows(self.call_timeout_seconds):",
        "if False:",
        ("overwrite", "append"),
    ),
    Mutation(
        "no file is added after the claim's timeout",
        "protocol.operations.switch:ClaimedEntries._add_files",
        "if deadline.is_over():",
        "if False:",
        ("append in place", "recover"),
    ),
    Mutation(
        "nothing is recovered before the claim's timeout",
        "protocol.log.rules:claim_is_over",
        "age_seconds > entry.publish_timeout_seconds",
        "True",
        ("overwrite", "append"),
    ),
    Mutation(
        "a clock that stands still is no clock",
        "protocol.log.deadline:Deadline.allows",
        "max(0.0, ahead if age is None else age - passed)",
        "0.0",
        ("append in place", "recover"),
    ),
    # What others have published
    Mutation(
        "what was published since the plan is a conflict",
        "protocol.log.rules:standing",
        "Standing.EARLIER if seen or appends or same_rows else Standing.CONFLICT",
        "Standing.EARLIER",
        ("overwrite", "append"),
    ),
    Mutation(
        "what was in doubt at the plan and is published since is a conflict",
        "protocol.log.rules:standing",
        "and entry.version not in in_doubt_at_plan",
        "",
        ("overwrite", "overwrite"),
        Bound(2, 0),
        500,
    ),
    Mutation(
        "an entry in doubt is resolved before another claims its partitions",
        "protocol.log.rules:standing",
        "if outcome is None and (overlap or same_key):",
        "if False:",
        ("append", "append"),
    ),
    Mutation(
        "a write that a vacuum has given up stops",
        "protocol.log.rules:standing",
        "return Standing.DELETED if meets else Standing.UNRELATED",
        "return Standing.UNRELATED",
        ("publish", "discard"),
    ),
    Mutation(
        "a partition that is there is not created",
        "protocol.operations.since_plan:SincePlan.refuse_existing",
        "if existing:",
        "if False:",
        ("create", "append d2 d3"),
    ),
    # Appends
    Mutation(
        "an append copies what has come since",
        "protocol.operations.append:CarryOver.to_bring",
        "known.get(values, {}) != listed.get(values, {})",
        "values not in known",
        ("append", "append in place"),
    ),
    # Outcomes
    Mutation(
        "nothing is abandoned with a call unanswered",
        "protocol.operations.switch:ClaimedEntries.switch",
        "if not isinstance(failure, OutcomeUnknownError):",
        "if True:",
        ("append", "recover"),
    ),
    Mutation(
        "a refusal is recorded by whom nobody has overtaken",
        "protocol.operations.switch:ClaimedEntries.abandon",
        "is_ours = word == entry.write_id",
        "is_ours, word = True, entry.write_id",
        ("append", "recover"),
        schedules=1_500,
    ),
    Mutation(
        "a recovery takes the last word before it switches",
        "protocol.operations.recovery:Recovery.has_last_word",
        "if word in {claimed.write_id, lost_heir}:",
        "if True:",
        ("append", "recover"),
        schedules=1_000,
    ),
    Mutation(
        "what was published in part is not said to be published",
        "protocol.table.open_table:repetition_error",
        "if record.superseded:",
        "if False:",
        ("append once", "move", "append once"),
    ),
    Mutation(
        "which writes the log names is looked up in all that is read once",
        "protocol.log.records:Records.possibly_published_ids",
        "self._ids_of([record for record in self if record.outcome is not Outcome.ABANDONED])",
        "self._ids_of(record for record in self if record.outcome is not Outcome.ABANDONED)",
        ("publish", "discard"),
    ),
    Mutation(
        "a key of a batch and one of a single call never meet",
        "protocol.log.keys:KeySearch.look_up",
        "if key.stream and record.entry.stream == key.stream",
        "if key.stream",
        ("batch", "append once", "batch"),
    ),
    Mutation(
        "a call without an answer may yet be applied",
        "protocol.operations.switch:Switch._read_back",
        "isinstance(error, LostResponseError) or changed",
        "changed",
        ("overwrite", "append"),
    ),
    Mutation(
        "nothing is confirmed of which a part is missing",
        "protocol.operations.recovery:Recovery._has_taken_effect",
        "rules.effect(found.values()) is Effect.ALL",
        "True",
        ("append in place", "append"),
    ),
    Mutation(
        "nothing is confirmed while its drop may still come",
        "protocol.operations.recovery:Recovery._has_taken_effect",
        "not all(target and self._layout.all_data.contains(target) for target in targets)",
        "False",
        ("overwrite table", "append"),
    ),
    # Recovery
    Mutation(
        "an append in place is done again, file by file",
        "protocol.operations.in_place:whole_partitions",
        "if missing.isdisjoint(partition.targets())",
        "",
        ("append in place", "recover"),
    ),
    Mutation(
        "late calls are corrected",
        "protocol.operations.correction:Correction._placements",
        "return placements, frozenset(values for values in written if placements[values] is Placement.MOVED)",
        "return dict.fromkeys(placements, Placement.IN_PLACE), frozenset()",
        ("old alter comes", "recover"),
    ),
    Mutation(
        "an append corrects what it builds on",
        "protocol.operations.correction:Correction.needed",
        "if not moved and not listing.unverified:",
        "if True:",
        ("old alter comes", "append"),
        also=(CONFIRMED,),
    ),
    Mutation(
        "a recovery leaves a mark",
        "protocol.operations.recovery:_Repeat.before_claim",
        "self.opened.log.marks.remember_recovery(draft.entry.version)",
        "pass",
        ("overwrite", "append", "append"),
        schedules=600,
        also=(CONFIRMED,),
    ),
    # Keys and staged writes
    Mutation(
        "a key is looked for before anything is written",
        "protocol.table.open_table:OpenTable.require_new_key",
        "if published is not None:",
        "if False:",
        ("append once", "append once"),
    ),
    Mutation(
        "a key is looked for at the claim",
        "protocol.operations.since_plan:SincePlan.first_in_doubt",
        "if published is not None:",
        "if False:",
        ("append once", "append once"),
    ),
    Mutation(
        "nothing is discarded that was published",
        "protocol.vacuum.sweep:_Discard.look",
        "if self.write_id in view.records.possibly_published_ids or self.remover.in_use_now(view).meets(data.place):",
        "if False:",
        ("publish", "discard"),
    ),
    Mutation(
        "a key is void once its rows were rolled back",
        "protocol.log.rules:published_with_key",
        "and is_kept(record, records)",
        "",
        ("append once", "rollback", "append once"),
    ),
    # Vacuums
    Mutation(
        "no vacuum without a claim",
        "protocol.loop:attempt",
        "if draft.is_claimed or _claim(claimant.opened, draft.entry):",
        "if draft.is_claimed or _claim(claimant.opened, draft.entry) or type(claimant).__name__ == '_Sweep':",
        ("rollback far", "vacuum"),
    ),
    Mutation(
        "a vacuum spares where readers look",
        "protocol.vacuum.due:is_used",
        "return used.meets(left.location.place)",
        "return False",
        ("rollback far", "vacuum"),
    ),
    Mutation(
        "a discard deletes what was staged",
        "protocol.vacuum.remover:Remover._give_up",
        "self._delete(entry, self._store.list(data.key))",
        "self._delete(entry, ())",
        ("discard", "recover"),
    ),
)
