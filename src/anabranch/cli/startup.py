"""What comes before the commands: the PySpark that they need, and what makes them answer at once."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

try:
    import anabranch.pyspark_release  # noqa: F401 - raises for a PySpark that is too old
except ImportError as error:
    # One sentence, where the modules of the commands would fail on what that PySpark lacks.
    sys.exit(str(error))


class WithoutPandas:
    """Finds no pandas.

    pyarrow imports it, where it is there, before it makes its first array: a third of the time that `history`
    takes, for nothing that looking at a table needs.
    """

    @staticmethod
    def find_spec(
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG004 - the signature of a finder
        target: ModuleType | None = None,  # noqa: ARG004
    ) -> importlib.machinery.ModuleSpec | None:
        """Raises `ModuleNotFoundError` for pandas; for all else the next finder is asked."""
        if name == "pandas":
            raise ModuleNotFoundError("left out, to start faster", name=name)
        return None


def leave_pandas_out() -> None:
    """For the rest of this process, unless it is there already."""
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, WithoutPandas)
