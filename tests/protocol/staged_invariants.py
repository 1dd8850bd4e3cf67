"""What must be true of staged writes in every state. Nothing here asks the product."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from table_writer.model.entry import Operation, Outcome

from .requests import Next
from .state import World, rows_at, rows_of
from .writes import Write


class StagedChecks:
    """Invariants of the staged writes of one scenario."""

    def __init__(self, actors: Mapping[str, Next], begin: World) -> None:
        self._publishers: dict[str, Write] = {
            n: phase[1] for n, phase in actors.items() if phase[0] == "publish_staged"
        }
        self._discarders: dict[str, str] = {n: phase[1] for n, phase in actors.items() if phase[0] == "discard_staged"}
        self._stagers: dict[str, Write] = {n: phase[1] for n, phase in actors.items() if phase[0] == "stage"}
        self._log_id = begin.log.marks.log_id
        self._staged = frozenset() if self._discarders else begin.staged & begin.awake

    def state(self, world: World, told: Iterable[tuple[str, str]], *, is_expired: bool) -> str:
        """Check a state."""
        told = tuple(told)
        for name, report in told:
            wrong = self._wrong_promise(world, name, report)
            if wrong:
                return wrong
        return (
            published_twice(world) or published_is_deleted(world) or ("" if is_expired else self._is_lost(world, told))
        )

    def success_is_gone(self, world: World, told: Iterable[tuple[str, str]]) -> str:
        """Check after a recover that what was acknowledged is there."""
        for name, report in told if world.log.marks.log_id == self._log_id else ():
            write = self._publishers.get(name)
            if write and report == "success" and not versions_published(world, write.write_id):
                named = {v for slot in world.log.slots if slot.write_id == write.write_id for v, _, _ in slot.changes}
                if not named & world.touched:
                    return f"{name} told its user that it succeeded, and no entry of {write.write_id} is published"
        return ""

    def _wrong_promise(self, world: World, name: str, report: str) -> str:
        if report.startswith("failed at v") and name in self._publishers:
            known, write_id = int(report.removeprefix("failed at v")), self._publishers[name].write_id
            for version in versions_published(world, write_id):
                slot = world.log.slots[version - 1]
                if slot.lost is not Outcome.ABANDONED and (version <= known or slot.by == name):
                    return f"{name} told its user that nothing is visible, and version {version} is published"
        if report == "vacuumed" and name in self._discarders and world.log.marks.log_id == self._log_id:
            write_id = self._discarders[name]
            for version in versions_published(world, write_id):
                return f"{name} told its user that {write_id} is discarded, and version {version} is published"
            if any(rows_at(code) and write_id in writers_of(world, code or "") for code in world.metastore):
                return f"{name} told its user that {write_id} is discarded, and readers see it"
        return ""

    def _is_lost(self, world: World, told: Iterable[tuple[str, str]]) -> str:
        """A write that is staged for longer, and that nobody publishes or discards, keeps its files."""
        writes = {one.write_id: one for one in self._publishers.values() if one.write_id in self._staged & world.awake}
        writes |= {self._stagers[name].write_id: self._stagers[name] for name, report in told if report == "staged"}
        for write_id, write in writes.items():
            wanted = {f"{write_id}/{values}" for values in write.partitions}
            if wanted - world.data and not versions_published(world, write_id):
                return f"{write_id} is staged, and its files are gone: {', '.join(sorted(wanted - world.data))}"
        return ""


def published_is_deleted(world: World) -> str:
    """No vacuum takes a staged write that was published for one that never was."""
    staged = {slot.write_id for slot in world.log.slots if slot.by}
    for slot in world.log.slots:
        for code, by in slot.deletes if slot.ended is not Outcome.ABANDONED else ():
            write_id = code.partition("/")[0]
            if by is None and write_id in staged and versions_published(world, write_id):
                return f"{slot.write_id} deletes {code} as never published, and it was"
    return ""


def published_twice(world: World) -> str:
    """A staged write is published once."""
    for write_id in {slot.write_id for slot in world.log.slots if slot.by}:
        if len(versions_published(world, write_id)) > 1:
            return f"{write_id} is published twice, as versions {versions_published(world, write_id)}"
    return ""


def versions_published(world: World, write_id: str) -> list[int]:
    """Return the versions that published a write, also those that were trimmed."""
    return [
        version
        for version, slot in enumerate(world.log.slots, 1)
        if slot.write_id == write_id and slot.operation is Operation.WRITE and slot.ended is Outcome.PUBLISHED
    ]


def writers_of(world: World, code: str) -> set[str]:
    """Return the writes whose rows lie at a location."""
    return {row.partition("/")[0] for row in rows_of(world, code)}
