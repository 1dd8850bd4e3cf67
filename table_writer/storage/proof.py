"""Tries whether a store does what this library depends on; each trial says yes, or what follows from no.

Keys are below a directory that nobody else uses; they go again, also where a trial fails.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, Literal

from table_writer.errors import DamagedError, InvalidInputError, StorageError, TableWriterError, counted
from table_writer.model.location import Location
from table_writer.model.upload_spec import MIN_PART_BYTES
from table_writer.storage.kinds import kind_of
from table_writer.storage.object_store import (
    PAGE_KEYS,
    ObjectInfo,
    ObjectStore,
    SourceChangedError,
    UnorderedListingError,
    many,
)

PROBES: Final = "probe-"  # begins the name of a directory of trials in the directory of a table's files
RACERS: Final = 8
ROUNDS: Final = 20
LISTED_KEYS: Final = PAGE_KEYS + 100  # more than one page
FEW_KEYS: Final = 4
MAX_SKEW_SECONDS: Final = 60  # S3 itself refuses requests from 15 minutes on
ODD_NAME: Final = "dt=a b%2Fü+&=#?~'(😀)/f"


class RefutedError(Exception):
    """The store does not do what was tried; the text says what it did instead."""


@dataclass
class Probe:
    """A store that is tried, below a directory of its own; what was made there is remembered, to be taken away."""

    store: ObjectStore
    directory: str
    open_other: Callable[[], ObjectStore]  # another client of the same store, as executors have
    takes_late_parts: bool = False  # a part after an abort; it completes nothing
    keys: set[str] = field(default_factory=set)
    uploads: set[tuple[str, str]] = field(default_factory=set)

    def key(self, name: str) -> str:
        """Return a key below the directory, and remember it."""
        self.keys.add(f"{self.directory}{name}")
        return f"{self.directory}{name}"

    def put(self, name: str, body: bytes = b"") -> str:
        """Store an object."""
        key = self.key(name)
        self.store.put(key, body)
        return key

    def listed_names(self, name: str = "") -> set[str]:
        """Return the names below the directory that a listing shows."""
        found = self.store.list(f"{self.directory}{name}")
        return {info.key.removeprefix(self.directory) for info in found}

    def create_upload(self, key: str) -> str:
        """Begin an upload."""
        upload_id = self.store.create_upload(key)
        self.uploads.add((key, upload_id))
        return upload_id

    def leave(self) -> None:
        """Take everything away: what is known, and what is listed; what cannot be is left, as the report says."""
        for key, upload_id in self.uploads:
            with contextlib.suppress(TableWriterError):
                self.store.abort_upload(key, upload_id)
        with contextlib.suppress(TableWriterError):
            self.keys |= {info.key for info in self.store.list(self.directory)}
        with contextlib.suppress(TableWriterError):
            self.store.delete(sorted(self.keys))

    def remaining_keys(self) -> Sequence[str]:
        """Return the keys that are there still."""
        try:
            return [info.key for info in self.store.list(self.directory)]
        except TableWriterError:
            return [self.directory]


def race(probe: Probe, name: str) -> str:
    """Let conditional puts race: one wins, and its bytes are there."""
    key = probe.key(name)
    bodies = [f"{number} {secrets.token_hex(8)}".encode() for number in range(RACERS)]
    winners = [body for body, won in zip(bodies, _at_once(probe, key, bodies), strict=True) if won]
    if len(winners) != 1:
        raise RefutedError(
            f"of {RACERS} conditional puts of one key (If-None-Match) {len(winners)} were told to have won"
        )
    stored = probe.store.get(key)
    if stored is None or stored.body != winners[0]:
        raise RefutedError("the bytes of the conditional put that won are not there")
    return f"of {RACERS} conditional puts at once one wins"


def _at_once(probe: Probe, key: str, bodies: Sequence[bytes]) -> list[bool]:
    return many(lambda body: probe.store.put_if_absent(key, body), bodies, threads=RACERS)


def conditional_puts(probe: Probe) -> str:
    """Race several times."""
    for number in range(ROUNDS):
        race(probe, f"claim-{number}")
    return f"in {ROUNDS} races of {RACERS} conditional puts one wins"


def fresh_listings(probe: Probe) -> str:
    """List what was put just before."""
    for number in range(FEW_KEYS):
        name = f"fresh/{number}/f"  # alone in its directory: whatever the order is
        key = probe.put(name, b"new")
        if name not in probe.listed_names(f"fresh/{number}/"):
            raise RefutedError("a listing does not show what was put just before")
        if probe.store.get(key) is None:
            raise RefutedError("an object is not there just after it was put")
    return "a listing shows what was put just before"


def key_order(probe: Probe) -> str:
    """Put more keys than a page holds, and look at the first page; the trials after it use them too."""
    numbers = sorted(range(LISTED_KEYS), key=lambda number: number * 7 % LISTED_KEYS)  # in no order
    many(probe.put, [f"page/{number:05d}" for number in numbers])
    page, more = probe.store.list_page(f"{probe.directory}page/")
    names = [info.key for info in page]
    if names != sorted(names, key=str.encode):
        raise RefutedError("a page is in an order of the store's own")
    return f"{counted(len(page), 'key')} of {'a' if more else 'one'} page are in the order of their bytes"


def start_after(probe: Probe) -> str:
    """Begin a listing after a key that is there, and one that is not."""
    middle, first = (f"page/{LISTED_KEYS // 2 + number:05d}" for number in range(2))
    for name in (middle, f"{middle}~"):
        try:
            page, _ = probe.store.list_page(f"{probe.directory}page/", start_after=f"{probe.directory}{name}")
        except UnorderedListingError as error:
            raise RefutedError("a listing does not begin after the key that it was to begin after") from error
        if not page or page[0].key != f"{probe.directory}{first}":
            raise RefutedError("a listing leaves keys out that follow the key it was to begin after")
    return "a listing begins right after any key"


def pages(probe: Probe) -> str:
    """List more keys than a page holds."""
    count = len(probe.listed_names("page/"))
    if count != LISTED_KEYS:
        raise RefutedError(f"of {LISTED_KEYS:,} keys all pages together show {count:,}")
    return f"{LISTED_KEYS:,} keys are all shown, page by page"


def odd_keys(probe: Probe) -> str:
    """Put a key that a careless store or proxy decodes or escapes once more."""
    key = probe.put(f"odd/{ODD_NAME}", b"odd")
    stored = probe.store.get(key)
    if stored is None or stored.body != b"odd" or f"odd/{ODD_NAME}" not in probe.listed_names("odd/"):
        raise RefutedError(f"the key {ODD_NAME!r} is not found again as it was put")
    return "keys with spaces, percent signs and characters beyond ASCII stay as they are"


def hidden_uploads(probe: Probe) -> str:
    """Look for an upload that is pending."""
    key = probe.key("hidden/f")
    probe.store.upload_part(key, probe.create_upload(key), 1, b"part")
    if "hidden/f" in probe.listed_names("hidden/") or probe.store.get(key) is not None:
        raise RefutedError("an upload that nobody has completed is seen")
    return "an upload is not seen before it is completed"


def listed_uploads(probe: Probe) -> str:
    """List uploads by a directory, and by one in it."""
    keys = [probe.key(f"uploads/{name}") for name in ("a/f", "b/f")]
    begun = [(key, probe.create_upload(key)) for key in keys]
    for key, upload_id in begun:
        probe.store.upload_part(key, upload_id, 1, b"part")
    for directory, expected in ((f"{probe.directory}uploads/", begun), (f"{probe.directory}uploads/b/", begun[1:])):
        if {(found.key, found.upload_id) for found in probe.store.list_uploads(directory)} != set(expected):
            raise RefutedError("pending uploads are not listed by the directory of their keys")
    return "pending uploads are listed by the directory of their keys"


def completion(probe: Probe) -> str:
    """Send two parts, and let another client complete them, twice: its answer may have been lost."""
    key = probe.key("completed/f")
    upload_id = probe.create_upload(key)
    bodies = (b"x" * MIN_PART_BYTES, b"y")
    parts = [probe.store.upload_part(key, upload_id, number, body) for number, body in enumerate(bodies, start=1)]
    other = probe.open_other()
    for _ in range(2):
        try:
            other.complete_upload(key, upload_id, parts)
        except StorageError as error:
            raise RefutedError(f"another client cannot complete an upload: {error}") from error
    info = probe.store.head(key)
    if info is None or probe.store.read_range(info, MIN_PART_BYTES - 1, 2) != b"xy":
        raise RefutedError("a completed upload does not have the bytes of its parts")
    return "another client completes an upload, and may do so twice"


def abort(probe: Probe) -> str:
    """Abort an upload, and go on with it."""
    key = probe.key("aborted/f")
    upload_id = probe.create_upload(key)
    part = probe.store.upload_part(key, upload_id, 1, b"part")
    probe.store.abort_upload(key, upload_id)
    if not probe.takes_late_parts and _is_done(lambda: probe.store.upload_part(key, upload_id, 1, b"part")):
        raise RefutedError("an upload that was aborted takes parts still")
    is_completed = _is_done(lambda: probe.store.complete_upload(key, upload_id, [part]))
    if is_completed or probe.store.head(key) is not None:
        raise RefutedError("an upload that was aborted can be completed still")
    return "an upload that was aborted takes no part, and is not completed"


def conditional_copies(probe: Probe) -> str:
    """Copy an object that was replaced since it was listed, and one that was not."""
    source, copy, stale = (probe.key(f"copied/{name}") for name in ("source", "copy", "stale"))
    probe.store.put(source, b"first")
    first = _head(probe, source)
    probe.store.put(source, b"second")
    with contextlib.suppress(SourceChangedError):
        probe.store.copy(first, stale)
        raise RefutedError("a copy on condition of an ETag takes another object")
    probe.store.copy(_head(probe, source), copy)
    stored = probe.store.get(copy)
    if stored is None or stored.body != b"second":
        raise RefutedError("a copy does not have the bytes of its source")
    return "a copy takes exactly the object that was listed"


def conditional_reads(probe: Probe) -> str:
    """Read an object that was replaced since it was listed."""
    key = probe.put("read/f", b"first")
    first = _head(probe, key)
    probe.store.put(key, b"other")
    with contextlib.suppress(SourceChangedError):
        probe.store.read_range(first, 0, 5)
        raise RefutedError("a read on condition of an ETag gives the bytes of another object")
    return "a read gives bytes of exactly the object that was listed"


def batch_deletes(probe: Probe) -> str:
    """Delete some of several objects, and one that is not there."""
    keys = [probe.put(f"deleted/{number}") for number in range(FEW_KEYS)]
    probe.store.delete([*keys[1:], probe.key("deleted/never-there")])
    if probe.listed_names("deleted/") != {"deleted/0"} or probe.store.get(keys[1]) is not None:
        raise RefutedError("a batch delete says that it was done, and leaves objects, or takes others")
    return "a batch delete takes exactly what it names, and a missing key is no error"


def clock(probe: Probe) -> str:
    """Compare the store's clock with this machine's; ages are by the store's alone."""
    key = probe.key("clock")
    probe.store.put(key, b"tick")
    skew_seconds = clock_skew_seconds(probe.store, key)
    if skew_seconds > MAX_SKEW_SECONDS:
        raise RefutedError(f"this machine's clock is {skew_seconds:,.0f} s away from the store's")
    return "this machine and the store agree on the time"


def clock_skew_seconds(store: ObjectStore, key: str) -> float:
    """Return how far this machine's clock is from the store's at the least, by an object that is there."""
    before = datetime.now(UTC)
    stored = store.get(key)
    after = datetime.now(UTC)
    if stored is None:
        raise StorageError(f"{key} was put a moment ago and is not there")
    there = stored.info.modified_at + timedelta(seconds=stored.age_seconds)
    return max((there - after).total_seconds(), (before - there).total_seconds(), 0.0)


def _head(probe: Probe, key: str) -> ObjectInfo:
    info = probe.store.head(key)
    if info is None:
        raise RefutedError("an object is not there just after it was put")
    return info


def _is_done(request: Callable[[], object]) -> bool:
    try:
        request()
    except StorageError:
        return False
    return True


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One thing that is tried: what follows if the answer is no, and what to do then."""

    run: Callable[[Probe], str]  # returns what the store does
    follows: str
    advice: str
    is_fatal: bool = True  # rows can be lost; else it costs money or people
    after: tuple[str, ...] = ()  # trials without which this one says nothing


ANOTHER_STORE: Final = "write nothing with this store; `docs/reference/compatibility.md` lists those that were tried"
TRIALS: Final[Mapping[str, Trial]] = {
    "conditional put": Trial(
        run=conditional_puts,
        follows="two writers can overwrite each other's entries of the log, and rows are lost",
        advice="use a store that keeps If-None-Match, as AWS S3, MinIO, and Ceph from Squid on do, by their own"
        " documentation, and no proxy that drops the header",
    ),
    "fresh listing": Trial(
        run=fresh_listings,
        follows="a writer overlooks versions that others have just published",
        advice="use a store whose listings are consistent, and no cache before it",
    ),
    "key order": Trial(
        run=key_order,
        follows="a listing of several pages would leave files out, so every such call ends with an error",
        advice="use a store that lists in the order of UTF-8 bytes: not S3 Express (directory buckets), nor Storj",
    ),
    "start after": Trial(
        run=start_after,
        follows="a listing of several pages leaves files out, or never ends",
        advice=ANOTHER_STORE,
        after=("fresh listing", "key order"),
    ),
    "pages": Trial(
        run=pages,
        follows="files beyond the first 1,000 of a directory are not found",
        advice=ANOTHER_STORE,
        after=("start after",),
    ),
    "odd keys": Trial(
        run=odd_keys,
        follows="partitions whose values have such characters are not found again",
        advice="write no such partition values, or use another store",
        after=("fresh listing",),
    ),
    "hidden uploads": Trial(
        run=hidden_uploads, follows="readers of a directory see files that are not published", advice=ANOTHER_STORE
    ),
    "listed uploads": Trial(
        run=listed_uploads,
        follows="vacuum cannot find what dead writes leave, and it is paid for",
        advice='add a lifecycle rule {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}} to the bucket, or'
        " use the store's own setting for stale uploads",
        is_fatal=False,
    ),
    "completion": Trial(
        run=completion,
        follows="the driver cannot complete what executors have sent: no write succeeds",
        advice=ANOTHER_STORE,
    ),
    "abort": Trial(
        run=abort,
        follows="a task that was given up can still make a file, and parts that come late are paid for",
        advice=ANOTHER_STORE,
        after=("hidden uploads",),
    ),
    "conditional copy": Trial(
        run=conditional_copies,
        follows="an append or a compaction can copy rows that another tool has just changed",
        advice=f"write with overwrite_partitions alone, or {ANOTHER_STORE}",
    ),
    "conditional read": Trial(
        run=conditional_reads,
        follows="read_arrow can join bytes of two files into rows that nobody wrote",
        advice=f"read with Spark alone, or {ANOTHER_STORE}",
    ),
    "batch delete": Trial(
        run=batch_deletes,
        follows="vacuum does not free what it says, or frees what it must not",
        advice=f"run no vacuum, or {ANOTHER_STORE}",
        after=("fresh listing",),
    ),
    "clock": Trial(
        run=clock,
        follows="S3 refuses requests from 900 s on, and times in the history are this machine's",
        advice="synchronise the clock of this machine (NTP)",
        is_fatal=False,
    ),
}


Answer = Literal["yes", "no", "failed", "not tried"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The outcome of one trial."""

    name: str
    answer: Answer
    message: str


def try_store(probe: Probe) -> Sequence[Verdict]:
    """Make all trials, whatever the earlier ones found, and leave nothing behind."""
    verdicts: dict[str, Verdict] = {}
    try:
        for name, trial in TRIALS.items():
            verdicts[name] = _verdict(name, trial, probe, verdicts)
    finally:
        probe.leave()
    return tuple(verdicts.values())


def _verdict(name: str, trial: Trial, probe: Probe, earlier: Mapping[str, Verdict]) -> Verdict:
    missing = next((before for before in trial.after if earlier[before].answer != "yes"), "")
    if missing:
        return Verdict(name=name, answer="not tried", message=f"not tried: see {missing}")
    try:
        return Verdict(name=name, answer="yes", message=trial.run(probe))
    except (RefutedError, UnorderedListingError, InvalidInputError) as refuted:
        return Verdict(name=name, answer="no", message=f"{refuted}: {trial.follows}")
    except StorageError as error:
        return Verdict(name=name, answer="failed", message=f"cannot be tried: {error}")


def few_in_order(probe: Probe) -> str:
    """Look whether a handful of keys is listed in order, all of them, and from one of them on."""
    names = sorted(secrets.token_hex(4) for _ in range(FEW_KEYS))
    many(probe.put, [f"few/{name}" for name in reversed(names)])
    for after, expected in (("", names), (names[0], names[1:])):
        place = f"{probe.directory}few/{after}" if after else ""
        page, _ = probe.store.list_page(f"{probe.directory}few/", start_after=place)
        if [info.key.removeprefix(f"{probe.directory}few/") for info in page] != expected:
            raise RefutedError("a listing does not show what was put just before, in the order of its keys")
    return "a listing shows what was put just before, in the order of its keys"


FIRST_TRIALS: Final[Mapping[str, Trial]] = {
    "conditional put": replace(TRIALS["conditional put"], run=partial(race, name="claim")),
    "key order": replace(TRIALS["key order"], run=few_in_order),
}
"""The part of all trials that every first write to a root makes: some twenty requests, most of them at once."""


def require_proven(store: ObjectStore, directory: Location) -> None:
    """Refuse, at the first write to a root, a store that would lose rows; what cannot be tried is raised as it is."""
    probe = Probe(store=store, directory=f"{directory.key}{PROBES}{secrets.token_hex(8)}/", open_other=lambda: store)
    try:
        for trial in FIRST_TRIALS.values():
            try:
                trial.run(probe)
            except (RefutedError, UnorderedListingError) as refuted:
                raise DamagedError(
                    f"the store behind {directory} cannot be written to: {refuted}; {trial.follows}. {trial.advice}."
                    f" `table-writer doctor --store {directory}` tries all that is needed of a store"
                ) from refuted
    finally:
        with contextlib.suppress(TableWriterError):
            store.delete(sorted(probe.keys))


def probe_below(location: Location, open_store: Callable[[], ObjectStore]) -> Probe:
    """Return a probe below a location, which need not exist."""
    return Probe(
        store=open_store(),
        directory=f"{location.key}_table_writer-probe-{secrets.token_hex(8)}/",
        open_other=open_store,
        takes_late_parts=kind_of(location).takes_late_parts,
    )
