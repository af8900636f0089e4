"""Every call of every operation fails in every way, on a disk and on moto's S3.

    python -m calls.every_call {disk,s3} [SHARE [OPERATION ...]]

with `src` and `tests` on the path. SHARE is the part of the failing calls that is chosen at random, 1 for all. Ends
with 1 where a judge has something to say.
"""

from __future__ import annotations

import contextlib
import logging
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from calls.local_disk import LocalDisk
from calls.operations import OPERATIONS
from calls.s3_server import FailingServer, S3Server
from calls.walking import Storage, Tally, walk
from storage.conftest import serving

KINDS = ("disk", "s3")
SEED = 44


@contextlib.contextmanager
def storage_of(kind: str) -> Iterator[Storage]:
    """A disk in the folder for temporary files, or a server in this process."""
    if kind == "disk":
        with tempfile.TemporaryDirectory() as folder:
            yield LocalDisk(Path(folder))
    else:
        logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
        server = FailingServer()
        with serving(server) as endpoint:
            yield S3Server(server, endpoint)


def walk_all(kind: str, *, share: float = 1.0, named: Sequence[str] = (), prints: bool = False) -> Tally:
    """Let calls fail in all operations, or in those that are named."""
    pa.set_cpu_count(1)
    tally, rng = Tally(), random.Random(SEED)
    with storage_of(kind) as storage:
        for operation in OPERATIONS:
            if named and operation.name not in named:
                continue
            began, earlier = time.monotonic(), len(tally.complaints)
            walk(storage, operation, tally, chosen=lambda: rng.random() < share)
            if prints:
                lines = [f"{kind}: {operation.name}, {time.monotonic() - began:.0f} s", *tally.complaints[earlier:]]
                print(*lines, sep="\n  ", flush=True)
    return tally


if __name__ == "__main__":
    kind, share, *names = [*sys.argv[1:], "1"] if len(sys.argv) == 2 else sys.argv[1:]
    result = walk_all(kind, share=float(share), named=names, prints=True)
    print(f"{kind}: {result}")
    sys.exit(1 if result.complaints else 0)
