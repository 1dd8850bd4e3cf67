"""Objects of the log as bytes: what is packed comes back, and what no writer of this library stores is refused."""

from __future__ import annotations

import gzip
import json

import pytest

from table_writer.protocol.log.stored import (
    MAX_RATIO,
    READABLE_BYTES,
    Allowance,
    TooMuchError,
    memory_bytes,
    packed,
    small_json,
)

LONG = b",".join(b"%d" % number for number in range(30_000))


def unpacked(stored: bytes, *, most: int | None = None, memory: int = 10**9) -> bytes:
    return Allowance(memory).parsed(stored, bytes, most=most)


def test_what_a_person_can_read_is_stored_as_it_is_and_the_rest_is_packed() -> None:
    for body in (b"", b"{}", b"x" * READABLE_BYTES):
        assert packed(body) == unpacked(packed(body)) == body
    assert len(LONG) > READABLE_BYTES
    assert packed(LONG) == packed(LONG)
    assert packed(LONG).startswith(b"\x1f\x8b")
    assert len(packed(LONG)) < len(LONG) / 2
    assert unpacked(packed(LONG)) == LONG


def test_what_shrinks_more_than_is_believed_when_it_is_read_is_not_packed() -> None:
    zeros = b"0" * (READABLE_BYTES * 4)
    assert len(gzip.compress(zeros)) * MAX_RATIO < len(zeros)
    assert unpacked(packed(zeros)) == packed(zeros) == zeros


@pytest.mark.parametrize(
    "damaged",
    [
        packed(LONG)[:-1],
        packed(LONG)[:-9],
        packed(LONG) + b"x",
        packed(LONG) + packed(LONG),
        packed(LONG)[:100] + b"\x00\x00" + packed(LONG)[102:],
        b"\x1f\x8b",
    ],
    ids=["last byte missing", "end missing", "something follows", "twice", "changed", "only the beginning"],
)
def test_packed_bytes_that_are_damaged_are_refused(damaged: bytes) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  # zlib's own words are among them
        unpacked(damaged)
    assert not isinstance(error.value, TooMuchError)


def test_no_more_bytes_are_made_of_an_object_than_its_kind_may_have() -> None:
    assert unpacked(LONG, most=len(LONG)) == unpacked(packed(LONG), most=len(LONG)) == LONG
    for stored in (LONG, packed(LONG)):
        with pytest.raises(ValueError, match=r"has (more than )?[\d,]+ bytes.* are expected"):
            unpacked(stored, most=len(LONG) - 1)
    with pytest.raises(ValueError, match="when unpacked, and no more than 200 for each that is stored"):
        unpacked(gzip.compress(b"0" * 1_000_000))


def test_what_was_read_before_counts_and_what_does_not_fit_says_how_to_go_on() -> None:
    body = b'{"a": [1, 2]}'
    allowance = Allowance(2 * memory_bytes(body))
    assert [allowance.parsed(body, json.loads) for _ in range(2)] == [{"a": [1, 2]}] * 2
    with pytest.raises(TooMuchError, match=rf"more than {2 * memory_bytes(body):,} bytes of memory.*log_memory_bytes"):
        allowance.parsed(body, json.loads)
    assert unpacked(body, memory=memory_bytes(body)) == body
    with pytest.raises(TooMuchError):
        unpacked(body, memory=memory_bytes(body) - 1)
    with pytest.raises(TooMuchError):
        unpacked(packed(LONG), memory=1_000)


def test_the_memory_of_a_text_grows_with_its_values_and_with_letters_that_are_not_ascii() -> None:
    assert memory_bytes(b"ab") == 4
    assert memory_bytes("ä".encode()) == 16
    assert [memory_bytes(text) - 2 * len(text) for text in (b"[", b",", b":", b"{")] == [64, 64, 64, 64 + 128]


def test_what_nobody_would_read_again_is_not_stored() -> None:
    body = b'{"a": [1, 2]}'
    assert packed(body, memory_bytes(body)) == body
    with pytest.raises(ValueError, match=rf"would take {memory_bytes(body)} bytes, and no more than"):
        packed(body, memory_bytes(body) - 1)


def test_a_small_object_is_no_longer_than_people_read() -> None:
    assert small_json(b'"' + b"x" * (READABLE_BYTES - 2) + b'"') == "x" * (READABLE_BYTES - 2)
    with pytest.raises(ValueError, match="65,537 bytes, and no more than 65,536"):
        small_json(b'"' + b"x" * (READABLE_BYTES - 1) + b'"')
