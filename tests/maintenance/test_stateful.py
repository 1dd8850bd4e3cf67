"""Random histories of writes, crashes, recoveries, rollbacks, vacuums and other tools, against a plain dict."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from table_writer.errors import (
    ConflictError,
    InvalidInputError,
    LostResponseError,
    OutcomeUnknownError,
    TableWriterError,
)
from table_writer.model.entry import Outcome
from table_writer.model.location import Location
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.placements import Placement
from tests.fuzz.puppet import names_drawn
from tests.publish.world import DeathError, Fault, FaultyWorld, World

Rows = dict[str, frozenset[int]]
PARTITIONS = ["d1", "d2", "d3"]
CALLS = {
    "store": [
        "put",
        "put_if_absent",
        "get",
        "list_page",
        "complete_upload",
        "create_upload",
        "delete",
        "list_uploads",
        "copy",
    ],
    "metastore": ["get_table", "get_partitions", "add_partitions", "alter_partitions", "drop_partition"],
}
MODES = [WriteMode.OVERWRITE_PARTITIONS, WriteMode.APPEND, WriteMode.OVERWRITE_TABLE]
modes = st.sampled_from(MODES)
partitions = st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=3, unique=True)
faults = st.one_of(
    *(
        st.builds(
            Fault,
            st.just(service),
            st.sampled_from(calls),
            st.integers(1, 4),
            st.sampled_from(["before", "after"]),
            st.sampled_from([Exception, KeyboardInterrupt, DeathError]),
        )
        for service, calls in CALLS.items()
    )
)


def after(mode: WriteMode, before: Rows, rows: Rows) -> Rows:
    """What a table holds after a write."""
    if mode is WriteMode.OVERWRITE_TABLE:
        return dict(rows)
    kept = before if mode is WriteMode.APPEND else {}
    return {**before, **{value: ids | kept.get(value, frozenset()) for value, ids in rows.items()}}


class TableMachine(RuleBasedStateMachine):
    """What readers see is what the dict says; where an outcome is open, one of two dicts."""

    def __init__(self) -> None:
        super().__init__()
        self.world = self.make_world()
        self.world.wait_seconds = 1_000  # a history must not last a day: no call comes later than that
        self.table = str(self.world.name)
        self.possible: list[Rows] = [{}]
        self.at_version: dict[int, Rows] = {0: {}}
        self.foreign: set[str] = set()  # partitions that other tools have touched: rollbacks of them may be refused
        self.vacuumed = False
        self.late: list[Callable[[], object]] = []
        self.disturbed = False  # a late call was applied and recover has not run since
        self.open_drops: set[str] = set()  # partitions of which a drop of ours was left unanswered
        self.next_id = 0

    def make_world(self) -> FaultyWorld:
        return World()

    def new_rows(self, values: list[str]) -> Rows:
        self.next_id += 10
        return {
            value: frozenset({self.next_id, self.next_id + 1 + index}) for index, value in enumerate(sorted(values))
        }

    def resolve(self) -> None:
        """Let claims time out and recover: from here on there is one possible dict again."""
        self.world.wait_out_claims()
        self.world.keeper.recover(self.table)
        self.disturbed = False
        seen = self.world.rows()
        assert seen in self.possible
        self.possible = [seen]
        self.remember()

    def remember(self) -> None:
        """Note what the newest version shows, if it is a state to go back to."""
        log = self.world.services().log
        newest = log.lister.read().newest
        if newest and log.slots.outcome(newest) is Outcome.PUBLISHED:
            self.at_version[newest] = self.possible[0]

    @rule(values=partitions, mode=modes)
    def write(self, values: list[str], mode: WriteMode) -> None:
        rows = self.new_rows(values)
        self.world.wait_out_claims()
        in_doubt = self.world.history().records.publishes_in_doubt
        try:
            published = self.world.write(rows, plan=self.world.plan(mode))
        except ConflictError:
            assert in_doubt or self.disturbed, "a conflict with nobody"
            assert mode is not WriteMode.APPEND, "an append is built on what others publish"
            self.resolve()
            published = self.world.write(rows, plan=self.world.plan(mode))
        unresolved = len(self.possible) > 1 or self.disturbed  # others may still be in doubt, or put back
        self.possible = [after(mode, one, rows) for one in self.possible]
        if unresolved:
            self.resolve()
        self.at_version[published.entry.version] = self.possible[0]

    @precondition(lambda self: len(self.possible) == 1 and not self.disturbed)
    @rule(values=partitions, mode=modes, fault=faults)
    def crash_a_write(self, values: list[str], mode: WriteMode, fault: Fault) -> None:
        rows = self.new_rows(values)
        before = self.possible[0]
        new = after(mode, before, rows)
        self.world.wait_out_claims()  # an outcome may not be on record, and nobody should wait for it here
        with self.world.inject(fault):
            try:
                self.world.write(rows, plan=self.world.plan(mode))
                self.possible = [new]
            except (OutcomeUnknownError, DeathError, KeyboardInterrupt):
                self.possible = [before, new]
            except TableWriterError:
                pass  # nothing is visible, now or later
            finally:  # a drop that failed leaves the entry in doubt, though readers have switched
                self.open_drops |= before.keys() - new.keys()
        if len(self.possible) == 1:
            self.remember()

    @precondition(lambda self: len(self.possible) == 1 and not self.disturbed and not self.late)
    @rule(values=partitions)
    def lose_a_call(self, values: list[str]) -> None:
        rows = self.new_rows(values)
        self.world.wait_out_claims()
        if self.world.history().records.publishes_in_doubt:  # an outcome was not recorded: that would be a conflict
            self.resolve()
        existing = set(values) <= self.world.partitions().keys()
        call = "alter_partitions" if existing else "add_partitions"
        unanswered = Fault("metastore", call, 1, "before", LostResponseError)
        with self.world.inject(unanswered, keep_call=True), suppress(OutcomeUnknownError):
            self.world.write(rows)
        self.late.append(self.world.kept_call)
        self.possible = [self.possible[0], {**self.possible[0], **rows}]

    @precondition(lambda self: self.late)
    @rule()
    def apply_the_late_call(self) -> None:
        with suppress(TableWriterError):  # the server may refuse it by now
            self.late.pop()()
        self.disturbed = True

    @rule()
    def recover(self) -> None:
        self.resolve()

    @precondition(lambda self: len(self.possible) == 1 and not self.disturbed)
    @rule(data=st.data())
    def roll_back(self, data: Any) -> None:
        version = data.draw(st.sampled_from(sorted(self.at_version)))
        before = self.possible[0]
        self.world.wait_out_claims()
        try:
            report = self.world.keeper.rollback(self.table, version=version)
        except InvalidInputError:
            assert self.vacuumed or self.foreign, "refused without a reason"
            return
        named = {partition.name.removeprefix("dt=") for partition in report.partitions}
        wanted = self.at_version[version]
        after = {value: rows for value, rows in before.items() if value not in named}
        after |= {value: wanted[value] for value in named - self.foreign if value in wanted}
        after |= {value: rows for value, rows in self.world.rows().items() if value in named & self.foreign}
        self.possible = [after]
        if report.version:
            self.at_version[report.version] = after

    @precondition(lambda self: not self.late)
    @rule(fault=st.one_of(st.none(), faults))
    def vacuum(self, fault: Fault | None) -> None:
        self.world.wait_out_claims()
        self.vacuumed = True
        if fault is None:
            assert self.world.vacuum().failures == ()
        else:
            with self.world.inject(fault), suppress(TableWriterError, KeyboardInterrupt, DeathError):
                self.world.vacuum()

    @precondition(lambda self: len(self.possible) == 1 and not self.disturbed and not self.late)
    @rule(value=st.sampled_from(PARTITIONS), drops=st.booleans())
    def another_tool(self, value: str, drops: bool) -> None:
        """Not while a call may come late: it could overwrite the other tool's change, which nobody promises to undo."""
        if drops and value in self.open_drops:
            return  # within a day nobody can tell it from a late drop of ours, which is undone
        self.foreign.add(value)
        if drops:
            self.world.metastore.drop_partition(self.world.table, (value,))
            self.possible = [{one: rows for one, rows in self.possible[0].items() if one != value}]
        else:
            rows = self.new_rows([value])[value]
            self.world.written_by_another_tool(value, rows)
            self.possible = [{**self.possible[0], value: rows}]

    @invariant()
    def readers_see_a_possible_state(self) -> None:
        if not self.disturbed:
            assert self.world.rows() in self.possible

    @invariant()
    def no_live_location_of_ours_is_without_data(self) -> None:
        layout = self.world.layout
        for partition in self.world.partitions().values():
            location = Location.parse(partition.location)
            if layout.all_data.contains(location):
                assert list(self.world.store.list(location.key)), f"{location} is live and empty"

    def teardown(self) -> None:
        while self.late:
            self.apply_the_late_call()
        self.resolve()
        self.world.wait_out_claims()
        self.world.vacuum()
        assert self.world.leftovers() == []
        self.world.wait_seconds = 3_600  # so long a vacuum that died may be at work
        self.world.wait_out_claims()
        self.world.keeper.recover(self.table)
        history = self.world.history()
        now = self.world.partitions()
        assert history.records.publishes_in_doubt == ()
        assert history.records.in_doubt == () or self.foreign
        for values in history.state.current_partitions:
            location = now[values[0]].location if values[0] in now else None
            where = history.placements.of(values, location)
            assert where is Placement.IN_PLACE or values[0] in self.foreign


@pytest.mark.usefixtures("in_one_thread")
@pytest.mark.parametrize("histories", [60, pytest.param(300, marks=pytest.mark.slow)])
def test_random_histories_end_in_what_a_dict_says(histories: int) -> None:
    drawn = settings(
        max_examples=int(os.environ.get("TABLE_WRITER_HISTORIES", histories)),
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    with names_drawn():
        run_state_machine_as_test(TableMachine, settings=drawn)
