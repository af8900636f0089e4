"""The modules of delta-spark's Python package by name, and the contents that anabranch gives each of them."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

logger = logging.getLogger("anabranch.auto")

DELTA_VERSION = "4.4.1"
"""The release of delta-spark whose names these modules have."""


def top_spec(installed: ModuleSpec | None) -> ModuleSpec | None:
    """The spec of `delta`; None where `installed` is another library's module of the same name."""
    # A folder of that name without __init__.py, such as a folder of tables, is not a module.
    if installed is not None and installed.has_location:
        if not _is_delta_spark(installed):
            return None
        logger.info("`import delta` imports anabranch, not the delta-spark in %s", installed.origin)
    return _spec("delta")


def spec_below(name: str) -> ModuleSpec | None:
    """The spec of a submodule such as `delta.tables`, if `delta` is ours."""
    loader = getattr(sys.modules.get("delta"), "__loader__", None)
    return _spec(name) if isinstance(loader, _DeltaLoader) and name in CONTENTS else None


def _is_delta_spark(spec: ModuleSpec) -> bool:
    folders = spec.submodule_search_locations
    return bool(folders) and PathFinder.find_spec("delta.pip_utils", folders) is not None


def _spec(name: str) -> ModuleSpec:
    return ModuleSpec(name, _DeltaLoader(), origin="anabranch", is_package=name in _PACKAGES)


class _DeltaLoader(Loader):
    """Fills a module with names of anabranch."""

    def create_module(self, spec: ModuleSpec) -> None:  # noqa: ARG002 - the signature of a loader
        """None, so that Python creates the module."""
        return

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(CONTENTS[module.__name__]())


def _top() -> dict[str, Any]:
    for name in ("exceptions", "pip_utils", "tables", "version"):
        importlib.import_module(f"delta.{name}")  # which makes it an attribute of `delta`
    names = {**_connect(), **CONTENTS["delta.pip_utils"](), **CONTENTS["delta.version"]()}
    return {**names, "__all__": [name for name in names if name != "__all__"]}


def _tables() -> dict[str, Any]:
    """The names include those that `delta.tables` imports, since scripts get them by `from delta.tables import *`."""
    # PySpark may be in the middle of its own import when this module is loaded.
    import dataclasses  # noqa: PLC0415
    import typing  # noqa: PLC0415

    import pyspark  # noqa: PLC0415
    import pyspark.sql.types  # noqa: PLC0415
    import pyspark.sql.utils  # noqa: PLC0415

    return {
        **_names(typing, "TYPE_CHECKING Any Dict Iterable List NoReturn Optional Tuple Union cast overload"),
        **_names(pyspark.sql.types, "DataType StructField StructType"),
        **_names(pyspark.sql, "Column DataFrame SparkSession functions"),
        **_typing(),
        **_table_classes(),
        "dataclass": dataclasses.dataclass,
        "delta": sys.modules["delta"],
        "is_remote": pyspark.sql.utils.is_remote,
        "since": pyspark.since,
    }


def _table_classes() -> dict[str, Any]:
    from anabranch import tables  # noqa: PLC0415 - imports PySpark

    return _names(tables, " ".join(tables.__all__))


def _exceptions() -> dict[str, Any]:
    from anabranch import exceptions  # noqa: PLC0415 - imports PySpark

    names = [name for name in exceptions.__all__ if name.endswith("Exception")]
    return {**_names(exceptions, " ".join(names)), "__all__": names}


def _exceptions_package() -> dict[str, Any]:
    for name in ("base", "captured"):
        importlib.import_module(f"delta.exceptions.{name}")
    return _exceptions()


def _typing() -> dict[str, Any]:
    import typing  # noqa: PLC0415

    from pyspark.sql import Column  # noqa: PLC0415 - as above

    text_or_column = typing.Union[str, Column]  # noqa: UP007 - these are values, and are printed in the old spelling
    return {
        "ExpressionOrColumn": text_or_column,
        "OptionalExpressionOrColumn": typing.Optional[text_or_column],  # noqa: UP045
        "ColumnMapping": dict[str, text_or_column],
        "OptionalColumnMapping": typing.Optional[dict[str, text_or_column]],  # noqa: UP045
    }


def _connect() -> dict[str, Any]:
    return {"DeltaTable": _table_classes()["DeltaTable"], "__all__": ["DeltaTable"]}


def configure_spark_with_delta_pip(spark_session_builder: Any, extra_packages: Sequence[str] | None = None) -> Any:
    """The builder, with `extra_packages` in `spark.jars.packages` if there are any; Delta itself needs none."""
    if extra_packages:
        return spark_session_builder.config("spark.jars.packages", ",".join(extra_packages))
    return spark_session_builder


def _names(module: Any, names: str) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names.split()}


CONTENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "delta": _top,
    "delta._typing": _typing,
    "delta.connect": _connect,
    "delta.connect.exceptions": _exceptions,
    "delta.connect.tables": _table_classes,
    "delta.exceptions": _exceptions_package,
    "delta.exceptions.base": _exceptions,
    "delta.exceptions.captured": _exceptions,
    "delta.pip_utils": lambda: {"configure_spark_with_delta_pip": configure_spark_with_delta_pip},
    "delta.tables": _tables,
    "delta.version": lambda: {"__version__": DELTA_VERSION},
}
"""A function for each module that returns the module's names and their values."""

_PACKAGES = {"delta", "delta.connect", "delta.exceptions"}
