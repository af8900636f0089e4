"""Lists of files in the JVM: handed over once, then shared by every scan of the same files."""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections import OrderedDict
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from anabranch.log.file_columns import vector_ids
from anabranch.spark.extension.compiled import ExtensionClasses
from anabranch.spark.file_listing import FileListing
from anabranch.spark.native.jvm_values import JvmValues

LISTS_KEPT_MAX = 8


class HandedOver:
    """The newest lists of files of one session, by what they hold. Any thread may use it."""

    def __init__(self, values: JvmValues, driver: ExtensionClasses) -> None:
        self._values = values
        self._driver = driver
        self._lock = threading.Lock()
        self._by_digest: OrderedDict[str, Any] = OrderedDict()
        self._by_table: dict[tuple[int, str], tuple[weakref.ref[pa.Table], str]] = {}

    def known(self, files: pa.Table, variant: str) -> Any | None:
        """The list for this very table object, if it was handed over and is still here.

        `variant` is whatever else went into the list.
        """
        with self._lock:
            entry = self._by_table.get((id(files), variant))
            if entry is None or entry[0]() is not files:
                return None
            return self._by_digest.get(entry[1])

    def hand_over(
        self,
        files: pa.Table,
        variant: str,
        listing: FileListing,
        *,
        root: str,
        group_schema: StructType,
        time_zone: str,
    ) -> Any:
        """A `ListedFiles$Files`; the one of an earlier scan where that held the same."""
        names = "\0".join(listing.names.to_pylist())
        numbers = np.column_stack((listing.sizes, listing.times_ms)).astype("<i8").tobytes()
        lengths, texts = _flat(listing.groups, listing.group_count)
        group_of = listing.group_of.astype("<i4").tobytes()
        vectors = "\0".join(text or "" for text in vector_ids(files["deletion_vector"]).to_pylist())
        digest = _digest(variant.encode(), names.encode(), numbers, group_of, lengths, texts, vectors.encode())
        with self._lock:
            known = self._by_digest.get(digest)
        if known is None:
            known = self._driver.new(
                "ListedFiles$Files",
                digest,
                root,
                names,
                numbers,
                group_of,
                listing.group_count,
                lengths,
                texts,
                self._values.type(group_schema),
                time_zone,
                listing.has_vector.astype(np.uint8).tobytes(),
            )
        self._keep(files, variant, digest, known)
        return known

    def _keep(self, files: pa.Table, variant: str, digest: str, known: Any) -> None:
        with self._lock:
            self._by_digest[digest] = known
            self._by_digest.move_to_end(digest)
            while len(self._by_digest) > LISTS_KEPT_MAX:
                self._by_digest.popitem(last=False)
            for key in [key for key, (table, _) in self._by_table.items() if table() is None]:
                del self._by_table[key]
            self._by_table[id(files), variant] = (weakref.ref(files), digest)


def _flat(groups: tuple[pa.Array, ...], group_count: int) -> tuple[bytes, bytes]:
    """Lengths and UTF-8 of all values, row by row."""
    columns = [[None if text is None else text.encode() for text in column.to_pylist()] for column in groups]
    cells = [column[row] for row in range(group_count) for column in columns]
    lengths = np.array([-1 if cell is None else len(cell) for cell in cells], dtype="<i4")
    return lengths.tobytes(), b"".join(cell for cell in cells if cell)


def _digest(*parts: bytes) -> str:
    state = hashlib.blake2b(digest_size=20)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.hexdigest()
