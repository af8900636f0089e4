"""What Spark's planner asks of us while it plans a scan."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.errors.base import DeltaError
from anabranch.predicates.catalyst import from_catalyst
from anabranch.predicates.expressions import Predicate, conjunction
from anabranch.spark.engine import FileMask
from anabranch.spark.hidden_rows import LoadVector, LoadVectors, encode, load_hidden
from anabranch.spark.native.python_errors import remember
from anabranch.spark.physical_predicates import PhysicalNames

logger = logging.getLogger("anabranch.spark")


class ScanReader:
    """Answers `ListedFiles`, the Java side of a scan. Called from any thread, at any time while a plan lives.

    The JVM keeps this object alive for as long as a plan refers to it.
    """

    def __init__(
        self,
        *,
        files: pa.Table,
        table: str,
        names: PhysicalNames,
        prune: Callable[[Predicate], FileMask],
        load_vector: LoadVector,
        load_vectors: LoadVectors | None,
    ) -> None:
        self._files = files
        self._table = table
        self._names = names
        self._prune = prune
        self._load_vector = load_vector
        self._load_vectors = load_vectors

    def apply(self, question: str, detail: str | bytes | bytearray) -> bytes | str | None:
        """The method of `java.util.function.BiFunction`. A string is an error, which the JVM raises."""
        try:
            if question == "prune":
                return self.files_wanted(str(detail))
            assert isinstance(detail, bytes | bytearray), question
            return self.hidden_rows(np.frombuffer(detail, dtype="<i4"))
        except DeltaError as error:
            return remember(error)

    def files_wanted(self, filters: str) -> bytes | None:
        """One byte a file, 1 for those to read; None for all.

        `filters` are parts ended by NUL: a time zone, then JSON and SQL of each filter, empty where there is none.
        """
        time_zone, *forms = filters.split("\0")[:-1]
        try:
            predicate = conjunction(
                from_catalyst(json, session_time_zone=time_zone, sql=sql or None)
                for json, sql in zip(forms[::2], forms[1::2], strict=True)
            )
            return self._prune(self._names.of(predicate)).astype(np.uint8).tobytes()
        except DeltaError:
            raise
        except Exception:
            # Skipping only saves work. A mistake in it must not lose rows, nor stop a query that could run.
            logger.exception("Data skipping failed; all files are read")
            return None

    def hidden_rows(self, file_ids: npt.NDArray[np.int32]) -> bytes:
        """Hidden rows of those files: all lengths first, then all tables of `hidden_rows.encode`."""
        loaded = load_hidden(self._files, file_ids, self._load_vector, self._load_vectors, table=self._table)
        encoded = [encode(vector) for vector in loaded]
        return b"".join((struct.pack(f"<{len(encoded)}i", *map(len, encoded)), *encoded))

    class Java:
        implements = ("java.util.function.BiFunction",)
