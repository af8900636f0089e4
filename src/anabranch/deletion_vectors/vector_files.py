"""The files of vectors that a log names, each of which may hold many."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.deletion_vectors.locations import vector_path
from anabranch.protocol.actions import DeletionVectorDescriptor
from anabranch.protocol.data_paths import relative_path

INLINE = "i"
ABSOLUTE = "p"


def distinct_files(vectors: pa.ChunkedArray) -> list[DeletionVectorDescriptor]:
    """A descriptor for each file, however many vectors of it there are; none for vectors that are inline.

    They say where the file is, and nothing of a vector in it.
    """
    vectors = pc.drop_null(vectors)
    if not len(vectors):
        return []
    types, texts = pc.struct_field(vectors, "storage_type"), pc.struct_field(vectors, "path_or_inline_dv")
    stored = pc.not_equal(types, INLINE)
    distinct = pa.table({"type": types.filter(stored), "text": texts.filter(stored)}).group_by(["type", "text"])
    found = distinct.aggregate([])
    return [
        DeletionVectorDescriptor(storage_type=kind, path_or_inline_dv=text, size_in_bytes=0, cardinality=0)
        for kind, text in zip(found["type"].to_pylist(), found["text"].to_pylist(), strict=True)
    ]


def path_in_table(descriptor: DeletionVectorDescriptor, *, table_root: str) -> str | None:
    """The plain path of the vector's file below the table's root; None for one elsewhere, and for an inline vector.

    Raises `DeletionVectorDescriptorError`, and `UnsafePathError` for a path that means nothing.
    """
    if descriptor.storage_type == INLINE:
        return None
    if descriptor.storage_type == ABSOLUTE:
        return relative_path(descriptor.path_or_inline_dv, table_root=table_root)
    return vector_path(descriptor, table_root=table_root)
