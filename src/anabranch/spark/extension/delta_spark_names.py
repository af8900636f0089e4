"""Java classes under delta-spark's names, for programs that reach them through Py4J instead of its Python package.

MLflow does: `spark._jvm.io.delta.tables.DeltaTable.forPath(…).history(1)`. Without the class it goes on without the
version of the table.
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
"""By Java package: the folder of its sources beside this module, and a class of it. Each is compiled by itself."""


def load_delta_spark_names(gateway: Any, loader: Any) -> None:
    """Put them into `loader`, which has the classes of `load_extension`. Classes of these names that are there stay."""
    sources = importlib.resources.files(__package__)
    for package, (folder, known_by) in UNITS.items():
        java = sources.joinpath(folder)
        try:
            load_classes(gateway, loader, java, cache_folder(os.environ), package=package, known_by=known_by)
        except ExtensionClashError:
            # Of a jar of delta-spark's, of which some of the classes are there: whoever put it there means them.
            continue
