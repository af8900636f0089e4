"""Delta Lake tables for PySpark, with row-level concurrency and nothing added to Spark's classpath.

import anabranch

spark = anabranch.session()      # a local session that knows Delta, or
anabranch.enable(spark)          # a running one that learns it
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.progress.progress_events import on_progress
    from anabranch.reports import report
    from anabranch.server.running_server import serve
    from anabranch.sessions import disable, enable, session
    from anabranch.table_transactions import transact, transaction

__version__ = "0.1.0"
__all__ = ["__version__", "disable", "enable", "on_progress", "report", "serve", "session", "transact", "transaction"]


def __getattr__(name: str) -> Any:
    # Imported at first use: the command line reads logs without Spark, whose classes take long to import.
    if name in {"disable", "enable", "serve", "session", "transact", "transaction"}:
        # First, for its message: those imports fail where PySpark is missing, or too old.
        import anabranch.pyspark_release  # noqa: F401, PLC0415
    if name in {"disable", "enable", "session"}:
        import anabranch.sessions as sessions  # noqa: PLC0415, PLR0402

        return getattr(sessions, name)
    if name == "on_progress":
        from anabranch.progress.progress_events import on_progress  # noqa: PLC0415

        return on_progress
    if name in {"transact", "transaction"}:
        import anabranch.table_transactions as table_transactions  # noqa: PLC0415, PLR0402

        return getattr(table_transactions, name)
    if name == "report":
        from anabranch.reports import report  # noqa: PLC0415

        return report
    if name == "serve":
        from anabranch.server.running_server import serve  # noqa: PLC0415

        return serve
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
