"""The protocol holds in every interleaving of a few actors, and every rule of it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from table_writer.log.history import History

from .batch_scenarios import BATCH_MUTATIONS, BATCH_SCENARIOS
from .explorer import Explored, Explorer, Scenario
from .folding_mutations import FOLDING_MUTATIONS
from .in_place_mutations import IN_PLACE_MUTATIONS
from .in_place_scenarios import IN_PLACE_SCENARIOS
from .in_place_worlds import ADDED, in_place
from .invariants import newest_word
from .keeping import Protocol
from .late_mutations import LATE_MUTATIONS
from .late_scenarios import LATE_SCENARIOS
from .mode_mutations import MODE_MUTATIONS
from .mode_scenarios import MODES, OLD_ALTER_COMPARED, ONLY_REPEATED
from .mutation import Mutation
from .mutations import MUTATIONS, RecordsItsOwnFirst
from .report import trace_text
from .requests import Phase
from .scenarios import A_P, A_PQ, B_P, FULL, OLD_ALTER, ONLY_P, RECOVER, SCENARIOS, rollback, scenario
from .staged_mutations import STAGED_MUTATIONS
from .staged_scenarios import HANDED_OUT, STAGED_SCENARIOS
from .state import PARTITIONS, Budget, World, rows_at
from .telling_scenarios import TELLING_MUTATIONS, TELLING_SCENARIOS
from .writes import HALF, Brought, Planned

EXPECTED = {"write": "success", "rollback": "success", "recover": "recovered"}
EVERY = (
    *SCENARIOS,
    *MODES,
    *STAGED_SCENARIOS,
    *LATE_SCENARIOS,
    *BATCH_SCENARIOS,
    *IN_PLACE_SCENARIOS,
    *TELLING_SCENARIOS,
)
LARGER = tuple(replace(one, budget=one.larger) for one in EVERY if one.larger)
KNOWN: dict[object, Explored] = {}
EVERY_MUTATION = (
    *MUTATIONS,
    *MODE_MUTATIONS,
    *STAGED_MUTATIONS,
    *LATE_MUTATIONS,
    *BATCH_MUTATIONS,
    *IN_PLACE_MUTATIONS,
    *FOLDING_MUTATIONS,
    *TELLING_MUTATIONS,
)


def title(one: Scenario | Mutation) -> str:
    return (one.title if isinstance(one, Scenario) else one.rule).replace(" ", "-")


def as_it_is(explored: Scenario) -> Explored:
    """Explore under the rules as they are, once for all scenarios that differ only in their title."""
    key = (explored.start, tuple(explored.actors.items()), explored.budget, explored.other_tool)
    key += (explored.in_batches, explored.tells)
    found = KNOWN.get((key, explored.steps_are_checked))
    if found is None:
        found = KNOWN[key, explored.steps_are_checked] = Explorer(explored).run()
    return found


def require_clean(found: Explored, explored: Scenario) -> None:
    assert not found.problem, f"\n{trace_text(found)}"
    assert found.complete
    for name, phase in explored.actors.items():
        if phase[0] in EXPECTED:
            assert (name, EXPECTED[phase[0]]) in found.reports, "a model in which nobody succeeds proves nothing"


@pytest.mark.parametrize("explored", EVERY, ids=title)
def test_no_interleaving_breaks_the_protocol(explored: Scenario) -> None:
    require_clean(as_it_is(explored), explored)


@pytest.mark.slow
@pytest.mark.parametrize("explored", LARGER, ids=title)
def test_no_interleaving_with_more_faults_breaks_the_protocol(explored: Scenario) -> None:
    require_clean(Explorer(explored).run(), explored)


@pytest.mark.parametrize("mutation", EVERY_MUTATION, ids=title)
def test_a_broken_rule_is_noticed(mutation: Mutation) -> None:
    found = Explorer(mutation.scenario, mutation.protocol()).run()
    print(trace_text(found))
    assert mutation.finds in found.problem, "the broken rule is not noticed"
    sound = as_it_is(mutation.scenario)
    assert not sound.problem, f"the rule is not what makes the difference\n{trace_text(sound)}"


def an_older_location_is_live(world: World, _: Mapping[str, str]) -> str:
    for values, code in zip(PARTITIONS, world.metastore, strict=True):
        newest = newest_word(world.log, values)
        older = {
            rows_at(new) for slot in world.log.slots[: newest[0] - 1 if newest else 0] for v, _, new in slot.changes
        }
        in_doubt = any(slot.outcome is None and values in {c[0] for c in slot.changes} for slot in world.log.slots)
        if newest and not in_doubt and rows_at(code) != rows_at(newest[1]) and rows_at(code) in older:
            return f"{values} is back at {code}, though version {newest[0]} is published and nothing is in doubt"
    return ""


@pytest.mark.parametrize(
    "explored",
    [
        scenario("an old alter pending", OLD_ALTER, Budget(), recover=RECOVER),
        scenario("2 writes, recover", ONLY_P, Budget(timeouts=1, late=1), A=A_P, B=B_P, recover=RECOVER),
    ],
    ids=title,
)
def test_a_late_call_sets_readers_back_until_recover_runs(explored: Scenario) -> None:
    found = Explorer(explored).run(goal=an_older_location_is_live)
    print(trace_text(found))
    assert "is back at" in found.problem, "the model is too tame"
    assert any("late" in came for (_, _, came), _ in found.trace)
    require_clean(as_it_is(explored), explored)  # every state is also checked after a recover


def test_a_server_that_compares_and_sets_refuses_what_comes_late() -> None:
    explored = scenario("an old alter pending, compared", OLD_ALTER_COMPARED, Budget(late=1), recover=RECOVER)
    found = Explorer(explored).run(goal=an_older_location_is_live)
    require_clean(found, explored)


@pytest.mark.parametrize("explored", ONLY_REPEATED, ids=title)
def test_nobody_writes_twice_what_has_one_key(explored: Scenario) -> None:
    found = as_it_is(explored)
    assert not found.problem, f"\n{trace_text(found)}"
    assert ("A", "repeated") in found.reports
    assert ("A", "success") not in found.reports


@pytest.mark.parametrize("explored", STAGED_SCENARIOS, ids=title)
def test_a_staged_write_can_be_published(explored: Scenario) -> None:
    """Or it was before, and the next publisher is told so."""
    found = as_it_is(explored)
    for name, phase in explored.actors.items():
        if phase[0] == "publish_staged":
            assert {(name, "success"), (name, "repeated")} & found.reports, (
                "a model in which nobody succeeds proves nothing"
            )


@pytest.mark.parametrize("explored", HANDED_OUT, ids=title)
def test_nobody_publishes_or_discards_what_the_log_has_forgotten(explored: Scenario) -> None:
    found = as_it_is(explored)
    assert not found.problem, f"\n{trace_text(found)}"
    assert {("P1", "unknown"), ("D", "refused")} == found.reports


class StopsAtAGoneSource(Protocol):
    def copy(self, plan: Planned, wanted: tuple[Brought, ...]) -> Phase:
        phase = yield from super().copy(plan, wanted)
        return ("end", "its source is gone") if any(one.source == HALF for one in phase[1].brought) else phase


def test_a_vacuum_can_delete_what_an_append_is_about_to_copy() -> None:
    """The model reaches it; that it does no harm is checked with all scenarios."""
    long = next(one for one in MODES if one.title.startswith("append that takes long"))
    found = Explorer(long, StopsAtAGoneSource()).run()
    assert ("A", "its source is gone") in found.reports, "the model is too tame"


def test_entries_stay_that_say_which_files_are_of_which_version(monkeypatch: pytest.MonkeyPatch) -> None:
    explored = scenario("added: append in place, rollback", ADDED, Budget(), A=in_place("A", "p"), K=rollback(1))
    require_clean(as_it_is(explored), explored)
    monkeypatch.setattr(History, "_needed_for_files", lambda _: set())
    assert "nobody knows which files are of which version" in Explorer(explored).run().problem


def test_a_server_that_refuses_is_harmless() -> None:
    refusing = scenario("refusals", ONLY_P, Budget(timeouts=0, refusals=3), A=A_PQ, B=B_P, recover=RECOVER)
    found = Explorer(refusing).run(goal=an_older_location_is_live)
    require_clean(found, refusing)
    assert {report for _, report in found.reports} <= {"success", "failed", "recovered"}, "nobody is left in doubt"


def test_the_order_of_recording_outcomes_decides_nothing_that_a_reader_sees() -> None:
    """An original in doubt holds later writes off by itself, whether its recover entry's outcome is recorded or not."""
    for budget in (Budget(timeouts=1, late=1), FULL._replace(timeouts=1)):
        explored = scenario("order of recording", ONLY_P, budget, A=A_P, B=B_P, recover=RECOVER)
        require_clean(Explorer(explored, RecordsItsOwnFirst()).run(), explored)


def test_a_trace_reads_like_a_story() -> None:
    broken = MUTATIONS[1]
    told = trace_text(Explorer(broken.scenario, broken.protocol()).run())
    assert "claims v2: WRITE" in told
    assert "-> readers at p: " in told
    assert "v3 WRITE" in told


def test_the_model_decides_by_the_rules_of_the_product() -> None:
    assert all(not issubclass(Protocol, mutation.protocol) for mutation in EVERY_MUTATION)
