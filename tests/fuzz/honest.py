"""Honest bytes of every kind that comes from outside: worlds with a history, answers of a metastore, a message."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from table_writer.config import TableWriterConfig
from table_writer.model.table import Partition, PartitionChange, PartitionValues, TableName
from tests.maintenance.erasures import purge
from tests.metastore import test_wire as wire
from tests.mirrors.iceberg_world import IcebergWorld
from tests.mirrors.world import MirroredWorld
from tests.publish.world import World

NAME: Final[TableName] = wire.NAME
VALUES: Final[Sequence[PartitionValues]] = wire.VALUES


def _with_a_history(world: World) -> World:
    """Let each kind of entry, mark and record come to be."""
    for number in range(4):
        world.write({"1": frozenset({number}), "2": frozenset({number + 10})})
    table = str(world.name)
    world.keeper.rollback(table, version=2)
    world.write({"3": frozenset({30})})
    purge(world, frozenset({3}))
    world.keeper.vacuum(table, older_than=timedelta(0), force=True)
    purge(world, frozenset({30}))
    world.stage({"4": frozenset({40})})
    return world


def plain_world() -> World:
    return _with_a_history(World(config=TableWriterConfig(progress="off")))


def delta_world() -> World:
    return _with_a_history(MirroredWorld(config=TableWriterConfig(progress="off", mirrors=["delta"])))


def iceberg_world() -> World:
    return _with_a_history(IcebergWorld(config=TableWriterConfig(progress="off", mirrors=["iceberg"])))


def honest_answers() -> Mapping[str, bytes]:
    """Return the answers of a metastore, by the name of the call."""
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.Thrift import TMessageType
    from thrift.transport.TTransport import TMemoryBuffer

    found = {}
    for name, result in wire.RESULTS.items():
        buffer = TMemoryBuffer()
        protocol = TBinaryProtocol(buffer)
        protocol.writeMessageBegin(name, TMessageType.REPLY, 1)
        result().write(protocol)
        protocol.writeMessageEnd()
        found[name] = buffer.getvalue()
    return found


def converse_of(damage: Callable[[str, bytes], bytes]) -> Callable[[socket.socket], tuple[str, bytes] | None]:
    """Return a metastore that answers every call, after ``damage`` has had its way with the answer."""

    def converse(end: socket.socket) -> tuple[str, bytes] | None:
        try:
            told = wire.converse(end)
        except KeyError:  # a call that this metastore does not know
            return None
        return None if told is None else (told[0], damage(*told))

    return converse


def moved(found: Mapping[PartitionValues, Partition]) -> list[PartitionChange]:
    return [
        PartitionChange(partition=partition, location="s3://lake/y/", set_parameters={}) for partition in found.values()
    ]


def a_message() -> bytes:
    """Return what a task tells the driver of two files."""
    return plain_world()._upload(World().plan(), {"1": frozenset({1}), "2": frozenset({2})}).to_bytes()
