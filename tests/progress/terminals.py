"""Programs in terminals of their own."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import threading


def in_terminal(*command: str) -> tuple[str, str]:
    """What the program draws in a terminal of its own, and what it prints on standard output."""
    ours, theirs = pty.openpty()
    drawn = b""

    def read() -> None:
        nonlocal drawn
        # At the end of the last program that has it, the terminal fails on Linux, and is empty elsewhere.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 4096):
                drawn += part

    reader = threading.Thread(target=read)
    reader.start()
    run = subprocess.run(
        command,
        stderr=theirs,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "140"},
    )
    os.close(theirs)
    reader.join(10)
    os.close(ours)
    return drawn.decode(), run.stdout
