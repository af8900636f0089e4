"""Spark's side of a stream, without Spark: what its checkpoint holds, and a query that may die at any point."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from anabranch.protocol.actions import AddCDCFile, AddFile, RemoveFile
from anabranch.streaming.source_files import BatchPart
from anabranch.streaming.source_options import SourceOptions
from anabranch.streaming.stream_source import StreamSource
from transactions.table_on_memory import Writer, rival_of

BATCHES_MAX = 200


class Killed(Exception):
    """The process of the query is gone."""


@dataclasses.dataclass
class Checkpoint:
    """Positions planned, and how many of their batches are known to be done."""

    offsets: list[str] = dataclasses.field(default_factory=list)
    done: int = 0


@dataclasses.dataclass
class Sink:
    """Takes each batch once, as a table does by its `txn`."""

    batches: dict[int, list[str]] = dataclasses.field(default_factory=dict)

    def take(self, number: int, files: list[str]) -> None:
        earlier = self.batches.setdefault(number, files)
        assert earlier == files, f"batch {number} has other files when it is read again"

    @property
    def files(self) -> list[str]:
        return [file for number in sorted(self.batches) for file in self.batches[number]]


def source(writer: Writer, **options: Any) -> StreamSource:
    """A run of a query, in a process of its own."""
    table = rival_of(writer).table
    texts = {name: str(value) for name, value in options.items()}
    return StreamSource(
        table.snapshots,
        table="t",
        snapshot=table.snapshots.latest(),
        options=SourceOptions.parse(texts),
        to_milliseconds=int,
    )


def run(
    stream: StreamSource, checkpoint: Checkpoint, sink: Sink, kill: Callable[[str], None] = lambda point: None
) -> None:
    """Batches until nothing is new. `kill` is called at each point between two steps."""
    for _ in range(BATCHES_MAX):
        number = checkpoint.done
        start = checkpoint.offsets[number - 1] if number else None
        if len(checkpoint.offsets) == number:
            end = stream.latest_offset(start)
            kill("planned")
            if end is None or end == start:
                return
            checkpoint.offsets.append(end)
            kill("noted")
            if start is not None:
                stream.commit(start)
        files = names(stream.batch(start, checkpoint.offsets[number]))
        kill("read")
        sink.take(number, files)
        kill("written")
        checkpoint.done += 1
        kill("done")
    raise AssertionError("the stream finds no end")


def all_of(writer: Writer, **options: Any) -> list[str]:
    """Every file that a new query reads, in order."""
    sink = Sink()
    run(source(writer, **options), Checkpoint(), sink)
    return sink.files


def batches_of(writer: Writer, **options: Any) -> list[list[str]]:
    """The files of each batch."""
    sink = Sink()
    run(source(writer, **options), Checkpoint(), sink)
    return [sink.batches[number] for number in sorted(sink.batches)]


def names(parts: list[BatchPart]) -> list[str]:
    """The files by path; of changes with a sign."""
    return [name for part in parts for name in _names(part)]


def _names(part: BatchPart) -> Iterator[str]:
    if part.files.adds is not None:
        yield from part.files.adds["path"].to_pylist()[part.first : part.end]
        return
    signs: Mapping[type, str] = {AddFile: "+", RemoveFile: "-", AddCDCFile: "~"}
    for action in part.files.changes[part.first : part.end]:
        yield signs[type(action)] + str(getattr(action, "path", ""))
