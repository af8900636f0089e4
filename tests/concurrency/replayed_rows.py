"""The rows of a played table at each version, from its log alone. The judges share it, and nothing with what they judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anabranch.protocol.log_paths import commit_path
from concurrency.conditions import Row
from concurrency.played_table import PlayedTable
from transactions.log_linter import hidden_rows, parsed


def rows_at_every_version(played: PlayedTable) -> Iterator[list[tuple[dict[str, Any], int, Row]]]:
    """The live rows of each version: the `add` action of the file, the position there, and the row."""
    live: dict[str, tuple[dict[str, Any], frozenset[int]]] = {}
    version = 0
    while played.store.head(commit_path(version)) is not None:
        actions = parsed(played.store.read(commit_path(version)))
        for action in actions:
            if "remove" in action:
                path = action["remove"]["path"]
                assert path in live, f"version {version} removes {path}, which is not in the table"
                del live[path]
        for add in (action["add"] for action in actions if "add" in action):
            live[add["path"]] = add, frozenset(hidden_rows(played.store, add) or ())
        yield [
            (add, position, row)
            for path, (add, hidden) in live.items()
            for position, row in enumerate(played.data[path])
            if position not in hidden
        ]
        version += 1
