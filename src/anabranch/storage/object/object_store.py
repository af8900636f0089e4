"""Objects in S3, Google Cloud Storage and Azure Storage."""

from __future__ import annotations

import dataclasses
import functools
import logging
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import obstore
import obstore.exceptions
import obstore.store
import pyarrow as pa

from anabranch.errors.environment import (
    ConditionalPutUnsupportedError,
    CredentialsMissingError,
    FileMissingError,
    PathOutsideTableError,
    StorageError,
)
from anabranch.storage.file_tree import Deletion, Enters, Entry, delete_one_by_one, pages_of
from anabranch.storage.log_store import (
    PutOutcome,
    StoredFile,
    check_directory_path,
    check_file_path,
    check_size,
    is_temporary,
    join_path,
    sort_key,
    split_path,
)
from anabranch.storage.object import object_tree
from anabranch.storage.object.conditional_put_probe import ConditionalPutProbe, Creation, ProbeResult
from anabranch.storage.object.object_options import ObjectStoreOptions
from anabranch.storage.ranged_file import open_ranges

_LOG = logging.getLogger("anabranch.storage")
_Result = TypeVar("_Result")

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f]")
_PAGE_SIZE = object_tree.PAGE_SIZE
_AFTER_ALL_NAMES = object_tree.AFTER_ALL_NAMES

_NOT_CREATED_STATUS = {400, 401, 403, 404, 405, 411, 413, 501}
"""Statuses of a put after which the object certainly does not exist."""
_PROBE = ConditionalPutProbe()
"""The probe of the process: a service treats all tables the same."""


@dataclasses.dataclass(frozen=True, slots=True)
class _CreateResult:
    creation: Creation
    cause: str = ""


class ObjectStore:
    """A `LogStore` over the objects below one prefix of a bucket, for any number of threads.

    A put-if-absent is a conditional PUT; whether the service honours the condition is tested before the
    first one (`ConditionalPutProbe`). Reading does not need that and writes nothing.
    """

    def __init__(
        self, root: str, *, prefix: str, options: ObjectStoreOptions, probe: ConditionalPutProbe | None = None
    ) -> None:
        self.root = root.rstrip("/")
        self._prefix = prefix.strip("/")
        self._options = options
        self._probe = probe or _PROBE
        self._client = options.connect()

    def __repr__(self) -> str:
        return f"ObjectStore({self.root!r}, {self._options!r})"

    @property
    def identity(self) -> Hashable:
        return self.root, self._prefix, self._options.identity

    def list_from(self, directory: str, start_after: str = "") -> Iterator[StoredFile]:
        prefix = self._key_of_directory(directory)
        if self._options.lists_in_order:
            return self._names_after(directory, prefix, start_after)
        floor = sort_key(join_path(directory, start_after))
        unordered = self._names_after(directory, prefix, "")
        wanted = (file for file in unordered if start_after == "" or sort_key(file.path) > floor)
        return iter(sorted(wanted, key=lambda file: sort_key(file.path)))

    def list_tree(self, directory: str = "") -> Iterator[StoredFile]:
        for page in self._pages(directory, self._key_of_directory(directory), offset=None):
            for meta in page:
                path = self._path_of(meta)
                if path and not is_temporary(split_path(path)[1]):
                    yield _stored(path, meta)

    def walk(self, enters: Enters) -> Iterator[pa.Table]:
        return pages_of(object_tree.walk(self._entries, enters, in_order=self._options.lists_in_order))

    def head(self, path: str) -> StoredFile | None:
        key = self._key(path)
        try:
            return _stored(path, self._call("look at", path, lambda: obstore.head(self._client, key)))
        except FileMissingError:
            return None

    def read(self, path: str, *, size_max: int | None = None) -> bytes:
        key = self._key(path)
        if size_max is None:
            return self._call("read", path, lambda: bytes(obstore.get(self._client, key).bytes()))
        # The headers have the size, before the body is fetched.
        response = self._call("read", path, lambda: obstore.get(self._client, key))
        check_size(response.meta["size"], size_max, root=self.root, path=path)
        return self._call("read", path, lambda: bytes(response.bytes()))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        key = self._key(path)
        if offset < 0 or length <= 0:
            return self._read_no_bytes(path, offset, length)
        data = self._call(
            "read", path, lambda: bytes(obstore.get_range(self._client, key, start=offset, length=length))
        )
        if len(data) != length:
            cause = f"bytes {offset} to {offset + length} requested, {len(data)} bytes received"
            raise StorageError(root=self.root, path=path, doing="read", cause=cause)
        return data

    def open(self, path: str) -> pa.NativeFile:
        file = self.head(path)
        if file is None:
            raise FileMissingError(root=self.root, path=path, doing="open")
        return open_ranges(file.size_bytes, functools.partial(self.read_range, path))

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        key = self._key(path)
        self._refuse_unless_conditional(split_path(path)[0])
        match self._create(path, key, data).creation:
            case Creation.CREATED:
                return PutOutcome.CREATED
            case Creation.EXISTS:
                return self._exists_or_conflict(path)
            case Creation.UNSUPPORTED:
                raise self._unsupported("replied that it does not support conditional puts")
            case Creation.UNKNOWN:
                return PutOutcome.UNKNOWN

    def make_durable(self, path: str) -> None:
        """Do nothing: an object that exists is durable."""

    def put(self, path: str, data: bytes) -> None:
        key = self._key(path)
        self._call("write", path, lambda: obstore.put(self._client, key, data))

    def delete(self, path: str) -> None:
        key = self._key(path)
        with suppress(FileMissingError):
            self._call("delete", path, lambda: obstore.delete(self._client, key))

    def delete_many(self, paths: Sequence[str]) -> Deletion:
        keys = [self._key(path) for path in paths]
        try:
            self._call("delete", "", lambda: obstore.delete(self._client, keys))
        except StorageError:
            # With some services one object that is missing, or may not be deleted, fails the whole request.
            return delete_one_by_one(paths, self.delete)
        return Deletion(count=len(paths))

    def remove_directory(self, path: str) -> bool:
        self._key(path)
        return False

    @functools.cached_property
    def _single_attempt_client(self) -> obstore.store.ObjectStore:
        # A client that retries hides the outcome of the first attempt: after "500, then 403" its error is
        # "forbidden" although the object may exist.
        return self._options.connect(retries_max=0)

    def _create(self, path: str, key: str, data: bytes) -> _CreateResult:
        """Send one conditional PUT. Raises `StorageError` if it was certainly refused."""
        client = self._single_attempt_client
        try:
            obstore.put(client, key, data, mode="create", use_multipart=False)
        except obstore.exceptions.AlreadyExistsError:
            return _CreateResult(Creation.EXISTS)
        except obstore.exceptions.NotSupportedError:
            return _CreateResult(Creation.UNSUPPORTED)
        except (obstore.exceptions.BaseError, OSError, ValueError) as error:
            failure, status = self._translate(error, "write", path), _status_in(error)
            refused = isinstance(error, _NOT_CREATED_ERRORS) or status in _NOT_CREATED_STATUS
        else:
            return _CreateResult(Creation.CREATED)
        if status == 501:
            return _CreateResult(Creation.UNSUPPORTED)
        if refused:
            # For `FileNotFoundError`, the bucket is missing.
            raise StorageError(root=self.root, path=path, doing="write", cause=failure.cause)
        _LOG.warning("It is unknown whether %s was created in %s: %s", path, self.root, failure.cause)
        return _CreateResult(Creation.UNKNOWN, failure.cause)

    def _exists_or_conflict(self, path: str) -> PutOutcome:
        """The outcome for status 412 or S3's 409, for which the client raises the same error.

        409 means that another request for this name was in progress, which may have failed later.
        """
        try:
            return PutOutcome.UNKNOWN if self.head(path) is None else PutOutcome.EXISTS
        except StorageError:
            return PutOutcome.UNKNOWN

    def _refuse_unless_conditional(self, directory: str) -> None:
        results: list[_CreateResult] = []

        def create(path: str) -> Creation:
            results.append(self._create(path, self._key(path), b""))
            return results[-1].creation

        bucket = (self._options.endpoint, self._options.bucket)
        result = self._probe.test(bucket, directory, create=create, delete=self._delete_scratch)
        if result is ProbeResult.IGNORED:
            raise self._unsupported("accepts 'If-None-Match: *' and overwrites nevertheless")
        if result is ProbeResult.UNSUPPORTED:
            raise self._unsupported("replies that it does not support conditional puts")
        if result is ProbeResult.UNDECIDED:
            cause = f"it is unclear whether {self._options.endpoint} honours conditional puts ({results[-1].cause})"
            raise StorageError(root=self.root, path=directory, doing="write", cause=cause)

    def _delete_scratch(self, path: str) -> None:
        # The user may have permission to write but not to delete; a scratch object is empty and never listed.
        with suppress(StorageError):
            self._call("delete", path, lambda: obstore.delete(self._single_attempt_client, self._key(path)))

    def _unsupported(self, cause: str) -> ConditionalPutUnsupportedError:
        return ConditionalPutUnsupportedError(
            root=self.root,
            path="",
            cause=cause,
            endpoint=self._options.endpoint,
            way_out=(
                "Reading works. To write, use a service, or a release of it, that honours 'If-None-Match: *' on PUT "
                "(Amazon S3, Google Cloud Storage, Azure Storage, Cloudflare R2, current MinIO and Ceph do), "
                "or remove the proxy that drops the header"
            ),
        )

    def _names_after(self, directory: str, prefix: str, start_after: str) -> Iterator[StoredFile]:
        """Files directly in `directory`, in the order of the service."""
        offset = join_path(prefix, start_after) if start_after else None
        while True:
            skip_to = None
            for page in self._pages(directory, prefix, offset=offset):
                nested = None
                for meta in page:
                    name = self._path_of(meta)[len(directory) :].lstrip("/")
                    nested = name.partition("/")[0] if "/" in name else None
                    if name and nested is None and not is_temporary(name):
                        yield _stored(join_path(directory, name), meta)
                if nested is not None and len(page) >= _PAGE_SIZE:
                    # The page ends inside a subdirectory, which is skipped: a log may have a million sidecars.
                    skip_to = join_path(prefix, f"{nested}/{_AFTER_ALL_NAMES}")
                    break
            if skip_to is None:
                return
            offset = skip_to

    def _pages(self, directory: str, prefix: str, *, offset: str | None) -> Iterator[Any]:
        pages = self._call(
            "list",
            directory,
            lambda: iter(obstore.list(self._client, prefix or None, offset=offset, chunk_size=_PAGE_SIZE)),
        )
        while True:
            page = self._call("list", directory, lambda: next(pages, None))
            if page is None:
                return
            if offset is not None and page and sort_key(page[0]["path"]) <= sort_key(offset):
                # Services with the protocol of S3 or Azure exist that ignore where a listing should begin.
                page = [meta for meta in page if sort_key(meta["path"]) > sort_key(offset)]
            if page:
                yield page

    def _entries(self, directory: str, offset: str | None) -> Iterator[list[Entry]]:
        after = None if offset is None else join_path(self._prefix, offset)
        for page in self._pages(directory, self._key_of_directory(directory), offset=after):
            yield [(self._path_of(meta), meta["size"], _modified_ms(meta), False) for meta in page]

    def _path_of(self, meta: Any) -> str:
        path: str = meta["path"]
        return path[len(self._prefix) + 1 :] if self._prefix else path

    def _key(self, path: str) -> str:
        check_file_path(path, root=self.root)
        if _CONTROL_CHARACTERS.search(path):
            raise PathOutsideTableError(root=self.root, path=path, reason="has a control character")
        return join_path(self._prefix, path)

    def _key_of_directory(self, directory: str) -> str:
        check_directory_path(directory, root=self.root)
        return self._key(directory) if directory else self._prefix

    def _read_no_bytes(self, path: str, offset: int, length: int) -> bytes:
        """An empty range, which services refuse."""
        file = self.head(path)
        if file is None:
            raise FileMissingError(root=self.root, path=path)
        if offset < 0 or length < 0 or offset > file.size_bytes:
            cause = f"bytes {offset} to {offset + length} of a file of {file.size_bytes}"
            raise StorageError(root=self.root, path=path, doing="read", cause=cause)
        return b""

    def _call(self, doing: str, path: str, request: Callable[[], _Result]) -> _Result:
        try:
            return request()
        except (obstore.exceptions.BaseError, OSError, ValueError) as error:
            failure = self._translate(error, doing, path)
        # Raised outside of `except`, so that it has no reference to the client's error, whose text may have secrets.
        raise failure

    def _translate(self, error: Exception, doing: str, path: str) -> StorageError:
        text = str(error)
        cause = self._options.redact(text) or type(error).__name__
        if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in text and "ContainerNotFound" not in text:
            return FileMissingError(root=self.root, path=path, doing=doing)
        if _ROLE_REQUEST.search(text):
            return CredentialsMissingError(root=self.root, path=path, doing=doing, cause=cause)
        return StorageError(root=self.root, path=path, doing=doing, cause=cause)


_ROLE_REQUEST = re.compile(r"https?://(169\.254\.\d+\.\d+|metadata\.google\.internal)[:/]")
"""The service by which machines of a cloud get the credentials of their role: the last way to get some has failed."""
_NOT_CREATED_ERRORS = (
    obstore.exceptions.PermissionDeniedError,
    obstore.exceptions.UnauthenticatedError,
    FileNotFoundError,
    ValueError,
)


def _status_in(error: Exception) -> int | None:
    match = re.search(r"status code: (\d{3})", str(error))
    return int(match[1]) if match else None


def _stored(path: str, meta: Any) -> StoredFile:
    return StoredFile(path=path, size_bytes=meta["size"], modified_ms=_modified_ms(meta))


def _modified_ms(meta: Any) -> int:
    modified_ms: int = round(meta["last_modified"].timestamp() * 1000)
    return modified_ms
