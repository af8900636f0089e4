"""A folder on a real disk; each system call that the package makes for it may fail."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from anabranch.storage.local import durable_files, local_store, local_tree
from anabranch.storage.local.local_store import LocalStore
from calls.faults import CallCounter, Fault
from calls.tables import FirstState
from storage.faults import WriterDied

FILES, NAMES = {"open", "open to write", "open by Arrow"}, {"link", "replace", "unlink", "mkdir", "rmdir"}
LISTS, READS = {"listdir", "scandir"}, {"read", "readall"}
ALL = frozenset({*FILES, *NAMES, *LISTS, *READS, "read by Arrow", "write", "fsync", "stat"})
FAULTS = (
    Fault(name="the process is killed", calls=ALL, kills=True),
    Fault(name="EIO", calls=ALL, error=errno.EIO),
    Fault(name="EIO from then on", calls=ALL, error=errno.EIO, stays=True),
    Fault(name="EIO after the effect", calls=frozenset({*NAMES, "open to write"}), error=errno.EIO, has_effect=True),
    Fault(name="EIO at close", calls=frozenset({"close"}), error=errno.EIO, has_effect=True),
    Fault(name="ESTALE", calls=frozenset({*FILES, *LISTS, *READS, "stat", "link"}), error=errno.ESTALE),
    Fault(name="ETIMEDOUT after the effect", calls=frozenset(NAMES), error=errno.ETIMEDOUT, has_effect=True),
    Fault(name="EACCES", calls=frozenset({*FILES, *NAMES, *LISTS}), error=errno.EACCES, stays=True),
    Fault(name="EMFILE", calls=frozenset({*FILES, *LISTS}), error=errno.EMFILE, stays=True),
    Fault(name="ENOSPC", calls=frozenset({"open to write", "write", "link", "mkdir"}), error=errno.ENOSPC, stays=True),
    Fault(name="half is written", calls=frozenset({"write"}), error=-1),
    Fault(name="half is read", calls=frozenset(READS), error=-1),
    Fault(name="half is written, then ENOSPC", calls=frozenset({"write"}), error=-errno.ENOSPC, stays=True),
    Fault(name="acknowledged and not done", calls=frozenset({*NAMES, "write"}), lies=True),
)
EFFECTS = {"link", "replace", "unlink", "mkdir", "rmdir", "fsync", "write", "read", "close", "stat"}


class SystemCalls(CallCounter):
    """Counts the calls of an operation, and lets one of them fail."""

    def __init__(self) -> None:
        self.begin(-1, None)

    def begin(self, number: int, fault: Fault | None) -> None:
        """The next operation fails at the call with this number."""
        self.names: list[str] = []
        self._number, self._fault, self._has_failed, self._is_dead = number, fault, False, False

    def call(self, name: str, path: object, effect: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        if not self.is_active:
            # What is repeated without faults need not survive a power loss, and so takes half of the time.
            return None if name == "fsync" else effect(*arguments, **options)
        if self._is_dead:
            if name == "close":
                effect(*arguments)  # As the system does for a process that has ended.
            raise WriterDied
        number, fault = len(self.names), self._fault
        self.names.append(name)
        if fault is None or not self._fails(number, name, fault):
            return effect(*arguments, **options)
        self._has_failed = True
        if fault.kills:
            self._is_dead = True
            raise WriterDied
        if fault.lies:
            return len(arguments[1]) if name == "write" else None
        assert isinstance(fault.error, int)
        if fault.error < 0:
            return self._half(name, -fault.error, effect, arguments)
        if fault.has_effect:
            effect(*arguments, **options)
        raise OSError(fault.error, os.strerror(fault.error), str(path))

    def _fails(self, number: int, name: str, fault: Fault) -> bool:
        if number == self._number:
            return True
        return fault.stays and self._has_failed and name in fault.calls

    def _half(self, name: str, error: int, effect: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Half of what is to be written or read; then the error, if there is one."""
        if name == "write":
            descriptor, data = arguments
            if error == 1:
                return effect(descriptor, data[: (len(data) + 1) // 2])
            effect(descriptor, data[: len(data) // 2])
            raise OSError(error, os.strerror(error))
        data = effect(*arguments)
        return data[: len(data) // 2]


class _Os:
    """The module `os`, whose functions are counted."""

    def __init__(self, calls: SystemCalls) -> None:
        self._calls = calls
        self.path = types.SimpleNamespace(**{name: getattr(os.path, name) for name in dir(os.path)})
        for name in ("lexists", "isdir"):
            setattr(self.path, name, self._looking(getattr(os.path, name)))

    def __getattr__(self, name: str) -> Any:
        original = getattr(os, name)
        if name not in EFFECTS | LISTS:
            return original
        return lambda *arguments, **options: self._calls.call(name, arguments[0], original, *arguments, **options)

    def open(self, path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        name = "open to write" if flags & os.O_CREAT else "open"
        return self._calls.call(name, path, os.open, path, flags, *arguments, **options)

    def _looking(self, original: Callable[[Any], bool]) -> Callable[[Any], bool]:
        def look(path: Any) -> bool:
            try:
                return bool(self._calls.call("stat", path, original, path))
            except OSError:
                return False  # As these functions do.

        return look


class _File(io.FileIO):
    """A file whose reads are counted."""

    calls: SystemCalls

    def readall(self) -> bytes:
        return self.calls.call("readall", self.name, super().readall)

    def readinto(self, buffer: Any) -> int:
        return self.calls.call("read by Arrow", self.name, super().readinto, buffer) or 0


class LocalDisk:
    """Folders below `base`, one for each run."""

    faults = FAULTS

    def __init__(self, base: Path) -> None:
        self._base = base
        self._runs = 0
        self.calls = SystemCalls()
        self.root = ""

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Have the package make its system calls through ours."""
        counted, calls = _Os(self.calls), self.calls

        class File(_File):
            pass

        File.calls = calls

        def open_file(descriptor: int, mode: str, *, buffering: int) -> io.FileIO:
            return File(descriptor, mode)

        def open_by_arrow(path: str) -> pa.NativeFile:
            return pa.PythonFile(calls.call("open by Arrow", path, File, path), mode="r")

        arrow = types.SimpleNamespace(NativeFile=pa.NativeFile, Table=pa.Table, OSFile=open_by_arrow)
        with contextlib.ExitStack() as stack:
            for module in (durable_files, local_store, local_tree):
                stack.enter_context(mock.patch.object(module, "os", counted))
            stack.enter_context(mock.patch.object(local_store, "open", open_file, create=True))
            stack.enter_context(mock.patch.object(local_store, "pa", arrow))
            yield

    def fill(self, first: FirstState) -> None:
        """A new folder with these files."""
        if self.root:
            shutil.rmtree(self.root, ignore_errors=True)
        self._runs += 1
        self.root = str(self._base / f"table {self._runs}")
        os.mkdir(self.root)
        for path, (data, modified_ms) in first.files.items():
            file = Path(self.root, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            os.utime(file, ns=(modified_ms * 1_000_000,) * 2)

    def store(self) -> LocalStore:
        return LocalStore(self.root)

    store_of_others = store

    def contents(self) -> dict[str, bytes]:
        """The files that readers see."""
        paths = [path for path in Path(self.root).rglob("*") if path.is_file()]
        named = {str(path.relative_to(self.root)): path for path in paths}
        return {name: path.read_bytes() for name, path in named.items() if not path.name.startswith(".anabranch")}

    def settle(self) -> None:
        """Nothing is to come any more."""
