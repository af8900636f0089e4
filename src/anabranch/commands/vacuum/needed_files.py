"""The files of a table that VACUUM must never delete."""

from __future__ import annotations

import dataclasses
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.deletion_vectors.vector_reading import distinct_files, path_in_table
from anabranch.protocol.data_paths import relative_path_column
from anabranch.snapshot.snapshot import Snapshot

NOTHING = pa.nulls(0, pa.string())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NeededFiles:
    """The files that a version needs: its own, those of tombstones within the retention, and the vectors of both."""

    paths: pa.Array
    """Plain, from the table's root, in the form of `folded`."""
    names_elsewhere: pa.Array
    """The file names of paths outside the table's folder, in the same form."""

    @classmethod
    def of(cls, snapshot: Snapshot, *, removed_from_ms: int, besides: pa.Array = NOTHING) -> NeededFiles:
        """The files that `snapshot` needs, and tombstones of files removed at this time or later.

        `besides` are plain paths of the table that are needed, too.

        Raises `UnsafePathError` and `DeletionVectorDescriptorError` for paths that cannot be read: it is unknown which
        files they mean.
        """
        live = snapshot.files.columns("path", "deletion_vector")
        kept = snapshot.tombstones(after_ms=removed_from_ms - 1).select(["path", "deletion_vector"])
        inside, elsewhere = [besides], list[pa.Array]()
        for named in (live, kept):
            for paths, uris in (
                _data_files(named["path"], snapshot.table_root),
                _vector_files(named["deletion_vector"], snapshot.table_root),
            ):
                inside.append(paths)
                elsewhere.append(uris)
        names = last_segments(pa.concat_arrays(elsewhere))
        return cls(paths=folded(pa.concat_arrays(inside)), names_elsewhere=folded(names))

    def among(self, paths: pa.ChunkedArray) -> pa.ChunkedArray:
        """Which of these plain paths are needed.

        A path outside the table may still be a file inside it, by a link, a mount or another name of the storage. So
        files with the name of one that is needed outside are kept, too.
        """
        alike = folded(paths)
        needed = pc.is_in(alike, value_set=self.paths)
        if len(self.names_elsewhere):
            needed = pc.or_(needed, pc.is_in(last_segments(alike), value_set=self.names_elsewhere))
        return needed


def folded(paths: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The paths in one letter case and one Unicode form: some disks treat names that differ in these as one file."""
    if pc.all(pc.string_is_ascii(paths)).as_py() in {True, None}:
        return pc.ascii_lower(paths)
    return pc.utf8_lower(pc.utf8_normalize(paths, "NFC"))


def last_segments(paths: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The names of files, without their directories."""
    return pc.replace_substring_regex(paths, "^.*/", "")


def _data_files(uris: pa.ChunkedArray, table_root: str) -> tuple[pa.Array, pa.Array]:
    """Plain paths inside the table; URIs of those outside, decoded for their names."""
    text = pa.array([], pa.string()) if not len(uris) else uris.combine_chunks().cast(pa.string())
    plain = relative_path_column(text, table_root=table_root)
    outside = text.filter(pc.is_null(plain))
    return pc.drop_null(plain), _decoded(outside)


def _vector_files(vectors: pa.ChunkedArray, table_root: str) -> tuple[pa.Array, pa.Array]:
    inside, outside = list[str](), list[str]()
    for descriptor in distinct_files(vectors):
        path = path_in_table(descriptor, table_root=table_root)
        (outside if path is None else inside).append(descriptor.path_or_inline_dv if path is None else path)
    return pa.array(inside, pa.string()), _decoded(pa.array(outside, pa.string()))


def _decoded(uris: pa.Array) -> pa.Array:
    """The URIs with unescaped names; `/` is never escaped."""
    return pa.array([unquote(uri) for uri in uris.to_pylist()], pa.string())
