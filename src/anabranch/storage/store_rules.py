"""Rules that are the same for all storages: for paths, sizes of files, and the texts of their errors."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

from anabranch.errors.environment import FileTooLargeError, PathOutsideTableError

TEMPORARY_PREFIX = ".anabranch-"
"""The prefix of the names of temporary files of puts; no listing has them."""
MESSAGE_LENGTH_MAX = 1000


def check_file_path(path: str, *, root: str) -> str:
    """`path` itself, if it is the path of a file below `root`. Raises `PathOutsideTableError`."""
    reason = _fault(path)
    if reason is not None:
        raise PathOutsideTableError(root=root, path=path, reason=reason)
    return path


def check_file_paths(paths: Sequence[str], *, root: str) -> Sequence[str]:
    """`paths` themselves, if all are paths of files below `root`. Raises `PathOutsideTableError`."""
    for path in paths:
        check_file_path(path, root=root)
    return paths


def check_directory_path(directory: str, *, root: str) -> str:
    """`directory` itself, if it is the path of a directory below `root`, or empty, for the root."""
    return directory if directory == "" else check_file_path(directory, root=root)


def is_temporary(name: str) -> bool:
    """Whether the name is that of a temporary file of a put, which may be left by a writer that died."""
    return name.startswith(TEMPORARY_PREFIX)


def split_path(path: str) -> tuple[str, str]:
    """Directory and name; the directory is empty for a file directly under the root."""
    directory, _, name = path.rpartition("/")
    return directory, name


def join_path(directory: str, name: str) -> str:
    """The path of a name in a directory, the reverse of `split_path`."""
    return f"{directory}/{name}" if directory else name


def sort_key(name: str) -> bytes:
    """The key that sorts names as storages list them: their UTF-8 bytes."""
    # Names on disk need not be UTF-8; bytes that cannot be decoded are restored.
    return name.encode("utf-8", "surrogateescape")


def check_size(size_bytes: int, size_max: int | None, *, root: str, path: str) -> None:
    """Raises `FileTooLargeError` for a file of more than `size_max` bytes."""
    if size_max is not None and size_bytes > size_max:
        raise FileTooLargeError(root=root, path=path, size_bytes=size_bytes, size_max=size_max)


def redact(text: str, *, secrets: Iterable[str] = ()) -> str:
    """The first line of `text`, and code and message of an XML reply, without query strings and `secrets`."""
    summary = text.partition("\n")[0].partition("<?xml")[0].rstrip(" :")
    matches = [re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL) for tag in ("Code", "Message")]
    if any(matches):
        summary = f"{summary}: {', '.join(match[1] for match in matches if match)}"
    # Azure's signatures are in the query string.
    summary = re.sub(r"\?[^\s\"'<>]+", "?…", summary)
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        summary = summary.replace(secret, "…")
    return summary[:MESSAGE_LENGTH_MAX]


@functools.lru_cache(maxsize=256)
def _fault(path: str) -> str | None:
    if path == "":
        return "is empty"
    if "\0" in path:
        return "has a NUL character"
    if path.startswith("/"):
        return "is absolute"
    for segment in path.split("/"):
        # `a//b` and `a/./b` are the same file as `a/b` on a disk and another one in an object store.
        if segment in {"", "."}:
            return "has an empty or '.' segment"
        if segment == "..":
            return "has a '..' segment"
    return None
