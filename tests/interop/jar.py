"""The delta-spark jar in another process, as tests talk to it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from interop.jar_program import ANSWER

JARS = "ANABRANCH_JARS"
"""The jars, with commas between; `scripts/test_jar.sh` fetches them and sets it."""


class JarError(Exception):
    """What the jar said."""


class Jar:
    def __init__(self) -> None:
        program = Path(__file__).with_name("jar_program.py")
        self._log = Path(tempfile.mkdtemp(), "stderr")
        self._process = subprocess.Popen(
            [sys.executable, str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log.open("w"),
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._answer()

    def run(self, *statements: str) -> None:
        self._ask({"run": statements})

    def rows(self, query: str) -> pa.Table:
        path = self._ask({"query": query})["rows"]
        with pa.memory_map(path) as source:
            table = pa.ipc.open_file(source).read_all()
        os.unlink(path)
        return table

    def copy(self, source: str, target: str, checkpoint: str, **options: Any) -> None:
        """Copies the table by a stream, to the end of what there is. Raises `JarError`."""
        self._ask({"stream": {"source": source, "target": target, "checkpoint": checkpoint, "options": options}})

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        shutil.rmtree(self._log.parent)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                answer: dict[str, Any] = json.loads(line.removeprefix(ANSWER))
                if "error" in answer:
                    raise JarError(answer["error"])
                return answer
        raise JarError(f"the process ended: {self._log.read_text()[-4000:]}")
