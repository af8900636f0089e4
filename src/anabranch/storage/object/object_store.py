"""Objects in S3, Google Cloud Storage and Azure Storage."""

from __future__ import annotations

import dataclasses
import functools
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import obstore
import obstore.exceptions
import obstore.store
import pyarrow as pa

from anabranch.errors.environment import (
    ConditionalPutUnsupportedError,
    FileMissingError,
    PathOutsideTableError,
    StorageError,
)
from anabranch.storage.file_tree import Deletion, Enters, Entry, delete_one_by_one, pages_of
from anabranch.storage.log_store import PutOutcome, StoredFile, check_size
from anabranch.storage.object import object_tree
from anabranch.storage.object.conditional_put_probe import ConditionalPutProbe, Creation, ProbeResult
from anabranch.storage.object.object_options import ObjectStoreOptions
from anabranch.storage.object.object_tree import open_ranges
from anabranch.storage.storage_paths import (
    check_directory_path,
    check_file_path,
    is_temporary,
    join_path,
    order_of,
    split_path,
)

_LOG = logging.getLogger("anabranch.storage")
_Result = TypeVar("_Result")

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f]")
_PAGE_SIZE = object_tree.PAGE_SIZE
_AFTER_ALL_NAMES = object_tree.AFTER_ALL_NAMES

_SURELY_REFUSED_STATUS = {400, 401, 403, 404, 405, 411, 413, 501}
"""Answers to a put after which the object was surely not made."""
_PROBE = ConditionalPutProbe()
"""One for the process: what a service does, it does for every table."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Answer:
    creation: Creation
    cause: str = ""


class ObjectStore:
    """A `LogStore` over the objects below one prefix of a bucket, for any number of threads.

    A put-if-absent is a PUT that the service itself makes conditional; whether it does is tried out
    before the first one (`ConditionalPutProbe`). Reading needs no such thing and writes nothing.
    """

    def __init__(
        self, root: str, *, prefix: str, options: ObjectStoreOptions, probe: ConditionalPutProbe | None = None
    ) -> None:
        self._root = root.rstrip("/")
        self._prefix = prefix.strip("/")
        self._options = options
        self._probe = probe or _PROBE
        self._client = options.connect()

    def __repr__(self) -> str:
        return f"ObjectStore({self._root!r}, {self._options!r})"

    @property
    def root(self) -> str:
        return self._root

    def list_from(self, directory: str, start_after: str = "") -> Iterator[StoredFile]:
        prefix = self._key_of_directory(directory)
        if self._options.lists_in_order:
            return self._names_after(directory, prefix, start_after)
        floor = order_of(join_path(directory, start_after))
        unordered = self._names_after(directory, prefix, "")
        wanted = (file for file in unordered if start_after == "" or order_of(file.path) > floor)
        return iter(sorted(wanted, key=lambda file: order_of(file.path)))

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
            return _stored(path, self._ask("look at", path, lambda: obstore.head(self._client, key)))
        except FileMissingError:
            return None

    def read(self, path: str, *, size_max: int | None = None) -> bytes:
        key = self._key(path)
        if size_max is None:
            return self._ask("read", path, lambda: bytes(obstore.get(self._client, key).bytes()))
        # The size comes with the headers, before the body is fetched.
        found = self._ask("read", path, lambda: obstore.get(self._client, key))
        check_size(found.meta["size"], size_max, root=self._root, path=path)
        return self._ask("read", path, lambda: bytes(found.bytes()))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        key = self._key(path)
        if offset < 0 or length <= 0:
            return self._read_no_bytes(path, offset, length)
        data = self._ask("read", path, lambda: bytes(obstore.get_range(self._client, key, start=offset, length=length)))
        if len(data) != length:
            cause = f"bytes {offset} to {offset + length} asked for, {len(data)} bytes received"
            raise StorageError(root=self._root, path=path, doing="read", cause=cause)
        return data

    def open(self, path: str) -> pa.NativeFile:
        found = self.head(path)
        if found is None:
            raise FileMissingError(root=self._root, path=path, doing="open")
        return open_ranges(found.size_bytes, functools.partial(self.read_range, path))

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        key = self._key(path)
        self._refuse_unless_conditional(split_path(path)[0])
        match self._create(path, key, data).creation:
            case Creation.CREATED:
                return PutOutcome.CREATED
            case Creation.EXISTS:
                return self._exists_or_conflict(path)
            case Creation.UNSUPPORTED:
                raise self._unsupported("answered that it cannot put conditionally")
            case Creation.UNKNOWN:
                return PutOutcome.UNKNOWN

    def make_durable(self, path: str) -> None:
        """An object that shows is durable."""

    def put(self, path: str, data: bytes) -> None:
        key = self._key(path)
        self._ask("write", path, lambda: obstore.put(self._client, key, data))

    def delete(self, path: str) -> None:
        key = self._key(path)
        with suppress(FileMissingError):
            self._ask("delete", path, lambda: obstore.delete(self._client, key))

    def delete_many(self, paths: Sequence[str]) -> Deletion:
        keys = [self._key(path) for path in paths]
        try:
            self._ask("delete", "", lambda: obstore.delete(self._client, keys))
        except StorageError:
            # One object that is missing, or must stay, fails the whole request with some services.
            return delete_one_by_one(paths, self.delete)
        return Deletion(count=len(paths))

    def remove_directory(self, path: str) -> bool:
        self._key(path)
        return False

    @functools.cached_property
    def _single_attempt_client(self) -> obstore.store.ObjectStore:
        # A client that retries hides what the first attempt did: after "500, then 403" it says
        # "forbidden" although the object may be there.
        return self._options.connect(retries_max=0)

    def _create(self, path: str, key: str, data: bytes) -> _Answer:
        """One conditional PUT. Raises `StorageError` when it was surely refused."""
        client = self._single_attempt_client
        try:
            obstore.put(client, key, data, mode="create", use_multipart=False)
        except obstore.exceptions.AlreadyExistsError:
            return _Answer(Creation.EXISTS)
        except obstore.exceptions.NotSupportedError:
            return _Answer(Creation.UNSUPPORTED)
        except (obstore.exceptions.BaseError, OSError, ValueError) as error:
            failure, status = self._translate(error, "write", path), _status_in(error)
            refused = isinstance(error, _SURELY_REFUSED) or status in _SURELY_REFUSED_STATUS
        else:
            return _Answer(Creation.CREATED)
        if status == 501:
            return _Answer(Creation.UNSUPPORTED)
        if refused:
            # The missing thing is the bucket.
            raise StorageError(root=self._root, path=path, doing="write", cause=failure.cause)
        _LOG.warning("The fate of %s in %s is unknown: %s", path, self._root, failure.cause)
        return _Answer(Creation.UNKNOWN, failure.cause)

    def _exists_or_conflict(self, path: str) -> PutOutcome:
        """Tell 412 from S3's 409, which the client reports alike.

        409 says that another request for this name was under way; that one may yet have failed.
        """
        try:
            return PutOutcome.UNKNOWN if self.head(path) is None else PutOutcome.EXISTS
        except StorageError:
            return PutOutcome.UNKNOWN

    def _refuse_unless_conditional(self, directory: str) -> None:
        answers: list[_Answer] = []

        def create(path: str) -> Creation:
            answers.append(self._create(path, self._key(path), b""))
            return answers[-1].creation

        place = (self._options.endpoint, self._options.bucket)
        result = self._probe.ask(place, directory, create=create, delete=self._delete_scratch)
        if result is ProbeResult.IGNORED:
            raise self._unsupported("accepts 'If-None-Match: *' and overwrites all the same")
        if result is ProbeResult.UNSUPPORTED:
            raise self._unsupported("answers that it cannot put conditionally")
        if result is ProbeResult.UNDECIDED:
            cause = (
                f"asked whether it honours conditional puts, {self._options.endpoint} gave no clear answer "
                f"({answers[-1].cause})"
            )
            raise StorageError(root=self._root, path=directory, doing="write", cause=cause)

    def _delete_scratch(self, path: str) -> None:
        # Who may write need not be allowed to delete; a scratch object is empty and never listed.
        with suppress(StorageError):
            self._ask("delete", path, lambda: obstore.delete(self._single_attempt_client, self._key(path)))

    def _unsupported(self, finding: str) -> ConditionalPutUnsupportedError:
        return ConditionalPutUnsupportedError(
            root=self._root,
            path="",
            cause=finding,
            endpoint=self._options.endpoint,
            way_out=(
                "Reading works. To write, use a service or a release of it that honours 'If-None-Match: *' on PUT "
                "(Amazon S3, Google Cloud Storage, Azure Storage, Cloudflare R2, current MinIO and Ceph do), "
                "or take out the proxy that drops the header"
            ),
        )

    def _names_after(self, directory: str, prefix: str, start_after: str) -> Iterator[StoredFile]:
        """Files directly in `directory`, as the service lists them."""
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
                    # A page that ends inside a subdirectory: a log may have a million sidecars, and they
                    # are not asked for.
                    skip_to = join_path(prefix, f"{nested}/{_AFTER_ALL_NAMES}")
                    break
            if skip_to is None:
                return
            offset = skip_to

    def _pages(self, directory: str, prefix: str, *, offset: str | None) -> Iterator[Any]:
        pages = self._ask(
            "list",
            directory,
            lambda: iter(obstore.list(self._client, prefix or None, offset=offset, chunk_size=_PAGE_SIZE)),
        )
        while True:
            page = self._ask("list", directory, lambda: next(pages, None))
            if page is None:
                return
            yield page

    def _entries(self, directory: str, offset: str | None) -> Iterator[list[Entry]]:
        after = None if offset is None else join_path(self._prefix, offset)
        for page in self._pages(directory, self._key_of_directory(directory), offset=after):
            yield [(self._path_of(meta), meta["size"], _modified_ms(meta), False) for meta in page]

    def _path_of(self, meta: Any) -> str:
        path: str = meta["path"]
        return path[len(self._prefix) + 1 :] if self._prefix else path

    def _key(self, path: str) -> str:
        check_file_path(path, root=self._root)
        if _CONTROL_CHARACTERS.search(path):
            raise PathOutsideTableError(root=self._root, path=path, reason="holds a control character")
        return join_path(self._prefix, path)

    def _key_of_directory(self, directory: str) -> str:
        check_directory_path(directory, root=self._root)
        return self._key(directory) if directory else self._prefix

    def _read_no_bytes(self, path: str, offset: int, length: int) -> bytes:
        """Services refuse an empty range."""
        found = self.head(path)
        if found is None:
            raise FileMissingError(root=self._root, path=path)
        if offset < 0 or length < 0 or offset > found.size_bytes:
            cause = f"bytes {offset} to {offset + length} of a file of {found.size_bytes}"
            raise StorageError(root=self._root, path=path, doing="read", cause=cause)
        return b""

    def _ask(self, doing: str, path: str, request: Callable[[], _Result]) -> _Result:
        try:
            return request()
        except (obstore.exceptions.BaseError, OSError, ValueError) as error:
            failure = self._translate(error, doing, path)
        # Raised out here, the error does not carry the client's own with it, whose text may show secrets.
        raise failure

    def _translate(self, error: Exception, doing: str, path: str) -> StorageError:
        text = str(error)
        cause = self._options.redact(text) or type(error).__name__
        if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in text and "ContainerNotFound" not in text:
            return FileMissingError(root=self._root, path=path, doing=doing)
        return StorageError(root=self._root, path=path, doing=doing, cause=cause)


_SURELY_REFUSED = (
    obstore.exceptions.PermissionDeniedError,
    obstore.exceptions.UnauthenticatedError,
    FileNotFoundError,
    ValueError,
)


def _status_in(error: Exception) -> int | None:
    found = re.search(r"status code: (\d{3})", str(error))
    return int(found[1]) if found else None


def _stored(path: str, meta: Any) -> StoredFile:
    return StoredFile(path=path, size_bytes=meta["size"], modified_ms=_modified_ms(meta))


def _modified_ms(meta: Any) -> int:
    modified_ms: int = round(meta["last_modified"].timestamp() * 1000)
    return modified_ms
