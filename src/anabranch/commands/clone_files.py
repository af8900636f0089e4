"""Files of one table as the log of another names them: by where they are, whoever reads that log.

Of a file in the new table's own folder the path stays relative: a clone that is cloned back names the very files that
the table had before.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.deletion_vectors.locations import vector_path
from anabranch.log.file_columns import DELETION_VECTOR, LIVE_FILE_SCHEMA
from anabranch.protocol.actions import DeletionVectorDescriptor
from anabranch.protocol.data_paths import decode_path, encode_path, relative_path
from anabranch.storage.elsewhere import place_of

_URL = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]+:(?://[^/]*)?)(/.*)$", re.DOTALL)
_PLAIN = r"^[A-Za-z0-9_=\-][A-Za-z0-9_=\-.]*(/[A-Za-z0-9_=\-][A-Za-z0-9_=\-.]*)*$"
"""Relative paths that any root may be put before: nearly all."""
_INLINE, _BY_PATH = "i", "p"


def cloned_files(files: pa.Table, *, source_root: str, places: Collection[str], target_root: str) -> pa.Table:
    """The live files of a table as those of its clone: without row ids, which each table counts for itself.

    `places` are where the source may have files outside its root. Raises `UnsafePathError` for any other.
    """
    paths = absolute_uris(files["path"], root=source_root, places=places)
    columns = {
        "path": _relative_where_own(paths, target_root),
        "deletion_vector": _absolute_vectors(files["deletion_vector"], root=source_root, places=places),
        "base_row_id": pa.nulls(files.num_rows, pa.int64()),
        "default_row_commit_version": pa.nulls(files.num_rows, pa.int64()),
    }
    return pa.table(
        [columns[field.name] if field.name in columns else files[field.name] for field in LIVE_FILE_SCHEMA],
        schema=LIVE_FILE_SCHEMA,
    )


def _relative_where_own(paths: pa.Array, target_root: str) -> pa.Array:
    """Absolute URIs, but for files in the table's own folder, which are named from there."""
    # A scheme may be spelled in several ways; what follows it, in one.
    folder = absolute_uri(place_of(target_root)).partition(":")[2].rstrip("/") + "/"
    maybe_own = pc.match_substring(paths, folder)
    if not pc.any(maybe_own).as_py():
        return paths
    suspects = paths.filter(maybe_own).to_pylist()
    own = [relative_path(uri, table_root=target_root) for uri in suspects]
    named = [uri if path is None else encode_path(path) for uri, path in zip(suspects, own, strict=True)]
    return pc.replace_with_mask(paths, maybe_own, pa.array(named, pa.string()))


def absolute_uris(uris: pa.ChunkedArray, *, root: str, places: Collection[str]) -> pa.Array:
    """Paths of a log, as a log of another table may name the same files. Raises `UnsafePathError`."""
    text = uris.combine_chunks().cast(pa.string())
    below = pc.binary_join_element_wise(absolute_uri(place_of(root)).rstrip("/"), text, "/")
    unusual = pc.invert(pc.match_substring_regex(text, _PLAIN))
    if not pc.any(unusual).as_py():
        return below
    found = [_absolute(uri, root, places) for uri in text.filter(unusual).to_pylist()]
    return pc.replace_with_mask(below, unusual, pa.array(found, pa.string()))


def absolute_uri(plain: str) -> str:
    """The URI of an absolute plain path, spelled as Java's `new Path(plain).toUri()` spells it."""
    match = _URL.match(plain)
    scheme, path = ("file:", plain) if match is None else match.groups()
    return scheme + encode_path(path)


def _absolute(uri: str, root: str, places: Collection[str]) -> str:
    plain = decode_path(uri, table_root=root, allowed_prefixes=places)
    if plain.startswith("/") or _URL.match(plain):
        return absolute_uri(place_of(plain))
    return absolute_uri(f"{place_of(root)}/{plain}")


def _absolute_vectors(vectors: pa.ChunkedArray, *, root: str, places: Collection[str]) -> pa.Array:
    if vectors.null_count == len(vectors):
        return pa.nulls(len(vectors), DELETION_VECTOR)
    known: dict[str, str] = {}
    found = []
    for fields in vectors.to_pylist():
        if fields is None or fields["storage_type"] == _INLINE:
            found.append(fields)
            continue
        text = fields["storage_type"] + fields["path_or_inline_dv"]
        if text not in known:
            plain = vector_path(DeletionVectorDescriptor(**fields), table_root=root, allowed_prefixes=places)
            is_absolute = plain.startswith("/") or _URL.match(plain)
            known[text] = absolute_uri(place_of(plain) if is_absolute else f"{place_of(root)}/{plain}")
        found.append({**fields, "storage_type": _BY_PATH, "path_or_inline_dv": known[text]})
    return pa.array(found, DELETION_VECTOR)
