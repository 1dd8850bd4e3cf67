"""Candidates."""

from __future__ import annotations

from typing import Final

from .mutation import Mutation
from .search import Bound

CONFIRMED: Final = ("publish.base:confirmed", "log = _Log(opened, newest)", "return now")
"""An append asks the log about what a metastore shows: the second guard of all that concerns late calls."""
NOT_EXACTLY: Final = ("publish.append:CarryOver._require_exactly", "if not self._placed and not self.is_shared:", "if True:")
NOT_COUNTED: Final = (
    "publish.entry:files_there",
    "if (len(found), sum(one.size_bytes for one in found)) != (known.files, known.bytes):",
    "if False:",
)
"""What is put back is counted and measured: the second guard of which files are of which version."""
LOG: Final = "self.counts.__self__._log"

MUTATIONS: Final = (
    Mutation("no metastore change without a claim", "publish.publisher:Publisher.publish", "if self._claimed.claim(look.entry):", "if True:", ("overwrite", "overwrite")),
    Mutation("nothing is applied again after publishing", "publish.switch:ClaimedEntries.carry_out", "require_all_published(entry, ended, table)", "self._switch.apply(table, entry, now, deadline)", ("overwrite", "append")),
    Mutation("nothing is confirmed that a late call may have done", "publish.recovery:Recovery._has_taken_effect", "self._log.read_state(listed_after=entry.version).unverified", "frozenset()", ("old alter comes", "rollback", "overwrite", "recover"), Bound(2, 1), 1500),
    Mutation("placeholders stay after a refusal", "publish.switch:ClaimedEntries.switch", "self.give_up(entry, failure)",
        "there = self._switch.metastore.get_partitions(table, [one.values for one in entry.partitions])\n            [self._switch.metastore.drop_partition(table, values) for values, one in there.items() if entry.write_id in one.location]\n            self.give_up(entry, failure)", ("append d2 d3", "overwrite d2 d3"), Bound(2, 1), 1000),
    Mutation("one alter for all partitions", "publish.switch:Switch._alter", "return self.metastore.alter_partitions(table, changes, before_send=in_time)", "return [self.metastore.alter_partitions(table, [one], before_send=in_time) for one in changes] and None", ("overwrite",)),
    Mutation("new partitions come empty", "publish.switch:Switch._alter", "location=self._empty(entry, one)", "location=str(one.new_location)", ("append d2 d3",)),
    Mutation("an outcome is recorded after the drop", "publish.switch:Switch.apply", "return self._drop(table, entry, in_time)", f"{LOG}.record_outcome(entry.version, Outcome.PUBLISHED, write_id=entry.write_id, of=entry.write_id)\n    return self._drop(table, entry, in_time)", ("overwrite table", "overwrite"), Bound(2, 1), 1000),
    Mutation("a drop without an answer leaves the entry in doubt", "publish.switch:Switch._drop", 'return (f"{todo} `table-writer recover` does it.",)', "return ()", ("overwrite table", "append")),
    Mutation("a late drop is repaired", "log.history:History.placement", "return Placement.BEHIND if None in theirs else Placement.MISSING", "return Placement.MISSING", ("old drop comes", "recover"), Bound(0, 0), 100),
    Mutation("a late alter is repaired", "log.history:History.placement", "if current is not None and (current.place in ours or current.place in theirs):", "if False:", ("old alter comes", "recover"), Bound(0, 0), 100),
    Mutation("a recovery tells a late alter from another tool", "log.rules:recovered_state", "return PartitionState.BEFORE if ours else state", "return state", ("old alter comes", "overwrite", "recover"), Bound(2, 1), 1000),
    Mutation("a placeholder is as good as no partition", "log.history:History.placement", "if current is not None and not self.layout.is_placeholder(current):", "if current is not None:", ("old drop comes", "append", "recover"), Bound(2, 1), 1000),
    Mutation("a call that changed one partition changed all", "log.rules:effect", ".get(frozenset(changed), Effect.SOME)", ".get(frozenset(changed), Effect.NONE)", ("overwrite", "move"), Bound(2, 1), 500),
    Mutation("a recovery switches all partitions in one call, also what is done", "log.rules:to_switch", "if state not in others", "if state in {PartitionState.BEFORE, PartitionState.EMPTIED}", ("old alter comes", "overwrite", "recover"), Bound(2, 1), 1000),
    Mutation("a vacuum looks at the metastore", "vacuum.due:in_use", "return InUse(history.layout, live | history.in_use() | hidden)", "return InUse(history.layout, history.in_use() | hidden)", ("point back", "vacuum"), Bound(1, 0), 100),
    Mutation("a vacuum spares what is in doubt", "log.history:History.in_use", "for record in self.in_doubt for", "for record in () for", ("rollback far", "vacuum")),
    Mutation("a vacuum waits until no call can be late", "vacuum.due:due", "if left.age_seconds < wanted_seconds:", "if False:", ("overwrite", "vacuum")),
    Mutation("no rollback to what a vacuum deletes", "publish.rollback:_check", "and not history.restorable(location)", "and False", ("rollback further", "vacuum"), Bound(2, 0), 1000),
    Mutation("no rollback to what a vacuum may be deleting", "log.history:History.restorable", "return is_there and location.place not in self.doomed", "return is_there", ("rollback further", "vacuum"), Bound(2, 0), 1000),
    # modes
    Mutation("an append brings along what is there", "publish.publisher:Publisher._look", "carried = leaving if plan.mode is WriteMode.APPEND else {}", "carried = {}", ("append",)),
    Mutation("an append looks again after copying", "publish.append:CarryOver.bring", "return True", "return False", ("append", "append in place")),
    Mutation("what is not there any more is not among the copies", "publish.append:CarryOver._may_grow", "return placed.copied is not None and placed.copied.items() <= files.items()", "return True", ("append", "overwrite"), also=(NOT_EXACTLY,)),
    Mutation("no append to what a late alter has brought back", "publish.publisher:Publisher._look", "if plan.mode in BUILDING_MODES and self._recovery.correct(table, values, now, state):", "if False:", ("overwrite", "append", "append"), also=(CONFIRMED,), schedules=1000),
    Mutation("no creation where a late drop has taken rows away", "publish.publisher:Publisher._look", "if plan.mode in BUILDING_MODES and self._recovery", "if plan.mode is WriteMode.APPEND and self._recovery", ("old drop comes", "create d2"), Bound(1, 1), schedules=300),
    Mutation("a creation adds and alters nothing", "publish.switch:Switch.apply", "if now:", "if True:", ("create", "move d3"), Bound(1, 0), 500),
    Mutation("an overwrite of the table conflicts with every newer entry", "log.rules:standing", "or scope(entry.partition_values)", "", ("overwrite table", "append d2 d3"), also=(("publish.publisher:Publisher.publish", "self._first_in_doubt(look.entry, records, staged.plan)", "pass"),)),
    Mutation("a replaced set of partitions conflicts with every newer entry of it", "log.rules:standing", "or scope(entry.partition_values)", "", ("overwrite where", "append d2 d3"), also=(("publish.publisher:Publisher.publish", "self._first_in_doubt(look.entry, records, staged.plan)", "pass"),)),
    Mutation("what a table loses is emptied in the same alter", "publish.switch:Switch._alter", "if one.values in present)", "if one.values in present and one.new_location)", ("overwrite table",)),
    Mutation("an entry without partitions is not superseded", "publish.recovery:Recovery._record_outcome", "bool(superseded) and", "", ("overwrite nothing", "recover")),
    Mutation("the base version is fixed before the key is looked for", "log.open_table:OpenTable.require_new_key", "return self.log.with_checkpoint(recent.state)", "return self.log.read_state()", ("append once", "append once")),
    Mutation("the key of an abandoned entry is void", "log.rules:is_kept", "record.outcome is Outcome.PUBLISHED and any(", "record.outcome is not None and any(", ("append once", "append once")),
    Mutation("a write waits for an entry in doubt that has its key", "log.rules:standing", "same_key = draft.key.is_of(entry)", "same_key = False", ("append once", "append once d3")),
    # staged
    Mutation("a publisher looks for entries of its own write", "publish.publisher:_require_unpublished", "record.outcome is Outcome.PUBLISHED", "False", ("publish", "publish")),
    Mutation("who cannot resolve its own write's entry does not know the outcome", "publish.publisher:Publisher._resolve_other", "if plan.write_id in written_ids(plan.layout, entry):", "if False:", ("publish", "publish"), Bound(2, 2), 1000),
    Mutation("no discard without a claim", "vacuum.sweep:Vacuum.give_up", "if self._log.claim(entry):", "if self._log.claim(entry) or True:", ("publish", "discard"), schedules=500),
    Mutation("no discard without a claim, also after a refusal", "vacuum.sweep:Vacuum.give_up", "deletes = self._deletes(plan)", "if plan.kept: return plan\n        deletes = self._deletes(plan)", ("publish after a refusal", "discard"), Bound(1, 0), 300),
    Mutation("each publisher of a staged append copies into a directory of its own", "write.running_write:Claiming.fresh_directory", "write_id=new_write_id()", "write_id='20240101T000000-9999999999999999'", ("publish", "publish", "overwrite"), Bound(2, 1), 1000),
    Mutation("no staged append copies beside what was staged", "publish.append:CarryOver._may_grow", "return not self.is_shared", "return True", ("publish", "publish", "overwrite"), Bound(2, 1), 1000, also=(NOT_EXACTLY,)),
    Mutation("no publisher points readers at copies that a vacuum has given up", "publish.publisher:Publisher.publish", "carry_over.placed(draft)", "draft", ("publish", "vacuum"), Bound(3, 0), 1500),
    Mutation("the record of a staged write has a key that no sign of life has", "model.write:TableLayout.staged_key", "{self.all_staged.key}", "{self.registrations.key}", ("stage", "vacuum"), Bound(2, 1), 500),
    Mutation("the log is asked before files are missed", "write.staged_writes:StagedWrites._publish", "publisher.require_unpublished(record.plan)", "pass", ("publish", "publish"), Bound(2, 1), 500),
    Mutation("a vacuum spares what is staged", "vacuum.due:due", "elif write_id in staged:", "elif False:", ("publish overwrite", "days pass", "vacuum"), Bound(0, 1), 500),
    # late
    Mutation("late calls count until somebody has looked", "publish.recovery:Recovery.correct", "if not moved and not state.unverified:", "if not moved and not any(map(self._log.may_calls_come, state.unverified)):", ("overwrite", "append", "days pass", "append"), Bound(2, 1), 2000, also=(CONFIRMED,)),
    Mutation("nobody verifies while a call may come", "publish.recovery:Recovery._can_verify", "and not self._log.may_calls_come(max(history.unverified or ()))", "", ("overwrite", "append", "append"), Bound(2, 1), 1500, also=(CONFIRMED,)),
    Mutation("who verifies compares all partitions", "publish.recovery:Recovery._verify", "self._placed(history, history.current, now)", "self._placed(history, sorted(history.current)[:1], now)", ("overwrite d2 d3", "append d2 d3"), Bound(2, 1), 1500, also=(CONFIRMED,)),
    Mutation("nobody verifies while anything is in doubt", "publish.recovery:Recovery.correct", "is_alone = not history.publishes_in_doubt", "is_alone = True", ("old alter comes", "append", "append"), Bound(2, 1), 1500),
    Mutation("what newer entries cover is not done again", "publish.recovery:Recovery._end", "is_covered = rules.is_covered(history, entry)", "is_covered = False", ("overwrite", "lose outcome", "recover"), Bound(1, 1), 500),
    Mutation("what was claimed over an entry covers it, though it is in doubt", "log.rules:_covers", "return record.outcome is not Outcome.ABANDONED", "return record.outcome is Outcome.PUBLISHED", ("overwrite", "lose outcome", "recover"), Bound(2, 1), 1000),
    Mutation("what a vacuum deletes is not done again", "log.rules:is_covered", "return _delete((one.entry for one in newer), entry, history.layout) or any", "return any", ("overwrite", "days pass", "vacuum", "lose outcome", "recover"), Bound(0, 1), 1000, also=(("publish.evidence:Evidence.lost_files", "return lost", "return {}"),)),
    Mutation("an outcome is rebuilt by what came after the entry", "log.rules:rebuilt_outcome", "return Outcome.PUBLISHED, frozenset()\n    return", "return Outcome.ABANDONED, frozenset()\n    return", ("overwrite", "lose outcome", "overwrite", "recover"), Bound(2, 1), 1000),
    Mutation("each partition has a placeholder of its own", "publish.switch:Switch._empty", "partition.values", "('p',)", ("append d2 d3", "overwrite table", "insert d2"), Bound(2, 1), 1000),
    Mutation("an append lists placeholders", "publish.publisher:Publisher._look", "carried = leaving if plan.mode is WriteMode.APPEND else {}", "carried = {v: one for v, one in leaving.items() if '/empty/' not in one.location} if plan.mode is WriteMode.APPEND else {}", ("append d2 d3", "insert d3", "append d2 d3"), Bound(1, 1), 1000),
    Mutation("a placeholder is listed before it is dropped", "publish.switch:Switch._drop", "and values not in written", "", ("overwrite table", "insert d2"), Bound(2, 1), 500),
    Mutation("what is emptied already stays where it is", "publish.switch:Switch._changed", "empty = current.location if is_empty else self._empty(entry, partition)", "empty = self._empty(entry, partition)", ("overwrite table", "insert d2", "recover"), Bound(2, 1), 1000),
    Mutation("what was planned in another log conflicts", "publish.publisher:Publisher._refuse_other_log", "state.newest < plan.base_version or (plan.log_id and plan.log_id not in state.ids)", "False", ("publish overwrite", "begin again"), Bound(0, 0), 100),
    # in place
    Mutation("nothing is copied before the metastore has answered", "publish.switch:ClaimedEntries.switch", "notes = self._switch.apply(table, entry, now, deadline)\n        self._add_files(entry, files, deadline)", "self._add_files(entry, files, deadline)\n        notes = self._switch.apply(table, entry, now, deadline)", ("append in place",)),
    Mutation("sources stay until the outcome is recorded", "log.files:add_files", "store.copy(known[sources[target]], target, before_send=before_send)", "store.copy(known[sources[target]], target, before_send=before_send)\n        store.delete([sources[target]])", ("append in place", "recover")),
    Mutation("a copy without an answer leaves the entry in doubt", "publish.switch:ClaimedEntries._add_files", "raise outcome_unknown(entry, error) from error", "pass", ("append in place",)),
    Mutation("nothing is confirmed before its files are there", "publish.recovery:Recovery._has_taken_effect", "self._evidence.whole(entry.partitions)", "frozenset(one.values for one in entry.partitions)", ("append in place", "append in place")),
    Mutation("what was begun is rolled forward", "publish.evidence:Evidence.changed_since", "and not one.added", "", ("append in place", "recover"), Bound(2, 1), 500),
    Mutation("a rollback copies where later files lie", "log.history:History.surplus", "return frozenset(one.name for _, _, named in adding for one in named.added) - part", "return frozenset()", ("append in place", "rollback", "append"), Bound(1, 1), 300, also=(NOT_COUNTED,)),
    Mutation("a restore copies where files of an abandoned entry lie", "publish.restore:_check", "if not there.is_all:", "if False:", ("append in place d1", "drop", "restore"), Bound(2, 1), 600, also=(NOT_COUNTED,)),
    Mutation("a rollback copies where abandoned files may come", "log.history:History.surplus", "if record.outcome is not Outcome.ABANDONED or record.recorded_by != record.entry.write_id", "if record.outcome is Outcome.PUBLISHED", ("append in place", "overwrite", "rollback far"), Bound(1, 2), 600, also=(NOT_COUNTED,)),
    Mutation("what a recovery names is of the version that it finishes", "log.history:History.__post_init__", "version if again is None else first.get(again, again)", "version", ("append in place", "append", "rollback far"), Bound(2, 1), 600, also=(NOT_COUNTED,)),
    Mutation("what was superseded is no part of any version", "log.history:History.surplus", "and named.values not in record.superseded", "", ("append in place", "move", "recover", "rollback"), Bound(2, 1), 600, also=(NOT_COUNTED,)),
    Mutation("a rollback that a vacuum has given up stops", "publish.rollback:roll_back", "if found != copied_of or place in history.deleted or place in history.doomed:", "if found != copied_of:", ("rollback of files", "vacuum"), Bound(1, 0), 300),
    Mutation("nothing is added to what a vacuum deletes", "publish.publisher:Publisher.publish", "self._first_in_doubt(look.entry, records, staged.plan)", "pass", ("append in place d1", "point back", "vacuum"), Bound(2, 1), 1000),
    Mutation("a vacuum spares sources of what is in doubt", "log.history:History.in_use", "named += [partition.old_location, partition.new_location, partition.source]", "named += [partition.old_location, partition.new_location]", ("publish in place after a refusal", "days pass", "vacuum"), Bound(0, 1), 500, also=(("vacuum.due:due", "elif write_id in staged:", "elif False:"),)),
    Mutation("a vacuum deletes what an abandoned rollback has copied", "log.history:History._fold_abandoned", "copies = [one for one in own if data.contains(one)]", "copies = []", ("append in place", "rollback")),
    Mutation("an entry whose source a vacuum deletes is not done again", "log.rules:_delete", "(one.new_location, one.source)", "(one.new_location,)", ("publish in place", "lose outcome", "vacuum", "recover"), Bound(2, 1), 1000),
    Mutation("an outcome is rebuilt by files: what was refused", "publish.recovery:Recovery._rebuild", "is_copied(history, one, missing)", "True", ("append in place", "lose outcome", "overwrite", "recover"), Bound(0, 1), 500),
    Mutation("an outcome is rebuilt by files: what was published", "publish.recovery:Recovery._rebuild", "is_copied(history, one, missing)", "False", ("append in place", "lose outcome", "overwrite", "recover"), Bound(2, 1), 500),
    Mutation("nothing is added to what a late alter has brought back", "publish.publisher:Publisher._look", "if plan.mode in BUILDING_MODES and self._recovery.correct(table, values, now, state):", "if False:", ("overwrite", "append", "append in place"), also=(CONFIRMED,), schedules=1000),
    Mutation("a call without an answer counts by the parameters", "publish.switch:Switch._read_back", "is_sent = (one for one in now.values() if one.parameters.get(WRITE_ID_PARAMETER) == entry.write_id)", "is_sent = now.values()", ("append in place", "overwrite"), Bound(1, 1), 500),
    Mutation("a key is looked for behind a rollback", "publish.publisher:Publisher._repeated", "return self._opened.log.find_key(key) if rolled_back else published_with_key(records, key)", "return published_with_key(records, key)", ("append once after a rollback", "rollback")),
    # folds
    Mutation("what is in doubt is not folded", "log.rules:foldable", "ended = min((one.entry.version for one in history.in_doubt), default=history.newest) - 1", "ended = history.newest - 1", ("append", "overwrite", "vacuum", "recover"), Bound(2, 1), 1000),
    Mutation("what a recovery has ended is folded once it is verified", "log.rules:foldable", "versions = [] if history.unverified else", "versions =", ("rollback", "append", "vacuum", "recover"), Bound(2, 1), 1500),
    Mutation("the entries say how a partition came to an older place of ours", "log.history:History.needs_entries", "return self.fold is not None and any(", "return False and any(", ("append", "overwrite", "vacuum", "recover"), Bound(2, 1), 1500),
    Mutation("the entries say which files of an append in place count that was done again", "log.rules:counts_twice", "return any(partition.added for entry in again for partition in entry.partitions)", "return False", ("append in place", "recover", "vacuum"), Bound(2, 1), 1000),
    Mutation("entries stay that say which files are of which version", "log.history:History._needed_for_files", "return frozenset().union(*found.values())", "return frozenset()", ("append in place", "vacuum", "rollback"), Bound(1, 1), 500),
    Mutation("nothing is confirmed before the second alter", "publish.recovery:Recovery._has_taken_effect", "entry.has_figures or", "", ("overwrite with figures", "overwrite"), Bound(2, 1), 1000),
)
