"""Java classes under delta-spark's names, for programs that call them through Py4J instead of its Python package.

MLflow calls `spark._jvm.io.delta.tables.DeltaTable.forPath(…).history(1)`. Without the class it works, but does
not record the version of the table.
"""

from __future__ import annotations

import importlib.resources
import os
from typing import Any

from anabranch.errors.environment import ExtensionClashError
from anabranch.spark.extension.compiled import load_classes
from anabranch.spark.extension.kept_jars import cache_folder

UNITS = {
    "io.delta.tables": ("delta_tables", "DeltaTable"),
    "org.apache.spark.sql.delta": ("delta_log", "DeltaLog"),
}
"""By Java package: the folder of its sources, beside this module, and one of its classes. Each is compiled alone."""


def load_delta_spark_names(gateway: Any, loader: Any) -> None:
    """Adds them to `loader`, which has the classes of `load_extension`. Existing classes of these names are kept."""
    sources = importlib.resources.files(__package__)
    for package, (folder, class_name) in UNITS.items():
        java, main_class = sources.joinpath(folder), f"{package}.{class_name}"
        try:
            load_classes(gateway, loader, java, cache_folder(os.environ), package=package, main_class=main_class)
        except ExtensionClashError:
            # The user has added a jar with some of delta-spark's classes: those are used.
            continue
