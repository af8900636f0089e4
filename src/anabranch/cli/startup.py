"""Preparation of the process before a command runs: PySpark's release is checked, pandas is kept out."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

try:
    import anabranch.pyspark_release  # noqa: F401 - raises for a PySpark that is too old
except ImportError as error:
    # Without this, the commands' own imports would fail on classes that the old PySpark lacks.
    sys.exit(str(error))


class PandasBlocker:
    """An import finder that hides pandas.

    pyarrow imports pandas, if it is installed, before it makes its first array. That is a third of the time that
    `history` takes, and no command that only reads a table needs pandas.
    """

    @staticmethod
    def find_spec(
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG004 - the signature of a finder
        target: ModuleType | None = None,  # noqa: ARG004
    ) -> importlib.machinery.ModuleSpec | None:
        """Raise `ModuleNotFoundError` for pandas, and leave other modules to the next finder."""
        if name == "pandas":
            raise ModuleNotFoundError("left out, to start faster", name=name)
        return None


def block_pandas() -> None:
    """Hide pandas for the rest of this process, unless it is imported already."""
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, PandasBlocker)
