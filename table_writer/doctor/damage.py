"""What is lost or damaged below ``_table_writer/``: a finding each, with the way out."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from table_writer.display.reports import Finding
from table_writer.doctor.patient import Patient, error, ok, warning
from table_writer.errors import InvalidInputError
from table_writer.log.history import History, SlotRecord
from table_writer.log.owner import Owner
from table_writer.log.registration import read_registrations
from table_writer.log.rules import is_covered
from table_writer.log.stored import small_json
from table_writer.log.table_log import READ_THREADS, LogState

__all__ = ["damage"]

CHECK = "damage of the log"


def damage(patient: Patient) -> Iterable[Finding]:
    """Look for entries, outcomes and records that are lost or cannot be read."""
    state = patient.services.log.read_state(listed_after=0, allow_lost=True)
    found = [
        *_of_identity(patient, state),
        *_of_hint(patient, state),
        *_of_entries(patient, state),
        *_of_registrations(patient),
    ]
    yield from found or [ok(CHECK, "nothing is lost, and all of it can be read")]


def _of_identity(patient: Patient, state: LogState) -> Iterable[Finding]:
    services = patient.services
    stored, key = services.store.get(services.layout.owner_key), services.layout.owner_key
    if stored is None:
        if state.versions:
            yield warning(CHECK, f"{key} is lost", "bring it back from an older version, or let the next write do it")
        return
    try:
        log_id = Owner.from_json(stored.body, key).log_id
    except InvalidInputError:
        return  # the check of the owner says so
    if log_id and not state.ids:
        mark = f"{services.layout.log_prefix}id-{log_id}"
        yield warning(CHECK, f"the mark {mark} is lost", "nothing: the next write, or call, puts it back")
    elif log_id and log_id not in state.ids:
        yield error(
            CHECK,
            f"{services.layout.log_prefix} is the log {', '.join(sorted(state.ids))}, and {key} names {log_id}",
            f"bring the log back from older versions of the objects; or table-writer recover {patient.name}, whose"
            " refusal says how to begin a new one",
        )


def _of_hint(patient: Patient, state: LogState) -> Iterable[Finding]:
    key = patient.services.layout.settled_key
    stored = patient.services.store.get(key)
    try:
        hint = {} if stored is None else small_json(stored.body)
        known = stored is None or (int(hint["version"]) >= 0 and hint.get("log_id", "") in {"", *state.ids})
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        known = False
    if not known:
        yield warning(
            CHECK, f"{key} cannot be read, or is of another log: every plan lists the whole log", f"delete {key}"
        )


def _of_entries(patient: Patient, state: LogState) -> Iterable[Finding]:
    log = patient.services.log
    recover = f"table-writer recover {patient.name}"
    if state.lost:
        back = f"bring them back from older versions of the objects; or {recover} --accept-loss"
        yield error(CHECK, log.lost_message(state.lost), back)

    def read(version: int) -> SlotRecord | InvalidInputError | None:
        try:
            return log.find(version)
        except InvalidInputError as unreadable:
            return unreadable

    with ThreadPoolExecutor(READ_THREADS, thread_name_prefix="doctor") as pool:
        answers = list(pool.map(read, sorted(state.versions)))
    for unreadable in (one for one in answers if isinstance(one, InvalidInputError)):
        yield error(CHECK, unreadable.message, "bring it back from an older version; or do what the message says")
    history = History(patient.services.layout, [one for one in answers if isinstance(one, SlotRecord)])
    for record in history.publishes_in_doubt:
        if is_covered(history, record.entry):
            key = patient.services.layout.outcome_key(record.entry.version)
            yield warning(CHECK, f"{key} is lost; newer entries tell how that version ended", recover)


def _of_registrations(patient: Patient) -> Iterable[Finding]:
    layout = patient.services.layout
    for write_id, found in sorted(read_registrations(patient.services.store, layout).items()):
        if found.is_staged:
            try:
                found.record(layout)
            except InvalidInputError as unreadable:
                yield error(CHECK, unreadable.message, f"table-writer discard {patient.name} {write_id}")
        elif not found.writer:
            yield warning(
                CHECK,
                f"{found.key} cannot be read: only its age tells whether the write is alive",
                "nothing: its writer, if it is alive, puts it again; if not, a vacuum deletes it",
            )
