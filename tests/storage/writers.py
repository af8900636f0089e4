"""Programs that tests run as processes of their own: `python writers.py NAME ARGUMENTS`."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from typing import Any

from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.log_store import PutOutcome

PAYLOAD_BYTES = 300_000


def payload(seed: str) -> bytes:
    """Contents that show whether they are whole: a hash, then what it is the hash of."""
    body = hashlib.sha256(seed.encode()).digest() * (PAYLOAD_BYTES // 32)
    return hashlib.sha256(body).hexdigest().encode() + body


def is_whole(data: bytes) -> bool:
    return len(data) == 64 + PAYLOAD_BYTES // 32 * 32 and hashlib.sha256(data[64:]).hexdigest().encode() == data[:64]


def commit_versions(root: str, who: str, versions: str) -> None:
    """Try every version; print those that were ours."""
    store = LocalStore(root)
    print("ready", flush=True)
    sys.stdin.readline()
    for version in range(int(versions)):
        if store.put_if_absent(f"_delta_log/{version:020d}.json", who.encode()) is PutOutcome.CREATED:
            print(version)


def commit_forever(root: str) -> None:
    store = LocalStore(root)
    version = 0
    while True:
        if store.put_if_absent(f"_delta_log/{version:020d}.json", payload(str(version))) is PutOutcome.CREATED:
            print(version, flush=True)
        store.put("_delta_log/_last_checkpoint", payload(f"hint {version}"))
        version += 1


def die_at_every_system_call(base: str) -> None:
    """Fork one writer after another; the n-th is killed before its n-th system call."""
    for step in range(1, 200):
        child = os.fork()
        if child == 0:
            _die_at(step)
            store = LocalStore(f"{base}/{step}")
            outcome = store.put_if_absent("_delta_log/0.json", payload("0"))
            store.put("_delta_log/_last_checkpoint", payload("1"))
            os.write(1, f"{step} {outcome.value}\n".encode())
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            return


def _die_at(step: int) -> None:
    calls = 0

    def counted(original: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == step:
                os.kill(os.getpid(), signal.SIGKILL)
            if original is write and len(arguments[1]) > 100_000:
                # In two halves, so that a death between them leaves a torn file.
                return write(arguments[0], arguments[1][:100_000])
            return original(*arguments, **options)

        return call

    write = os.write
    for name in ("open", "write", "fsync", "close", "link", "replace", "unlink", "mkdir"):
        setattr(os, name, counted(getattr(os, name)))


if __name__ == "__main__":
    {"commit_versions": commit_versions, "commit_forever": commit_forever, "die": die_at_every_system_call}[
        sys.argv[1]
    ](*sys.argv[2:])
