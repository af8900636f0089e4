"""`enable` and `disable` leave PySpark as they found it: every attribute of every module, class and gateway."""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import functions as F
from start import FOLDER, started

import anabranch
from anabranch.patches import purposes


def attributes() -> dict[tuple[str, str, str], int]:
    """What PySpark and Py4J have under which name, by identity; of classes what they have themselves."""
    values: dict[tuple[str, str, str], int] = {}
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] not in {"pyspark", "py4j"} or module_name in NEW:
            continue
        for name, value in list(vars(module).items()):
            values[module_name, "", name] = id(value)
            if isinstance(value, type) and value.__module__ == module_name:
                values |= {
                    (module_name, value.__qualname__, name_of_attribute): id(kept)
                    for name_of_attribute, kept in vars(value).items()
                    if not is_volatile(name_of_attribute)
                }
    gateway: Any = spark.sparkContext._gateway
    for label, owner in {"gateway": gateway, "client": gateway._gateway_client}.items():
        values |= {
            ("the gateway's", label, name): id(value) for name, value in vars(owner).items() if name not in CALLS
        }
    return values


def is_volatile(name: str) -> bool:
    """What PySpark and Python themselves put into classes."""
    return name in {
        "_activeSession",
        "_instantiatedSession",
        "_active_spark_context",
        "__weakref__",
        "__annotations__",
    } or name.startswith("_abc_")


CALLS = {
    "deque",
    "finalizer_deque",
    "_callback_server",
    "gateway_property",
    "callback_server_parameters",
    "_python_proxy_port",
}
"""Connections and the callback server, which Spark has for its own streams, too."""
NEW: set[str] = set()
spark = started()
# What PySpark imports at its first use.
spark.range(3).select(F.col("id") + 1).write.mode("overwrite").parquet(f"{FOLDER}/plain")
spark.sql("SELECT 1").collect()
before, imported = attributes(), set(sys.modules)
for _ in range(2):
    anabranch.enable(spark)
    assert purposes()
    spark.range(3).write.format("delta").mode("overwrite").save(f"{FOLDER}/t")
    assert spark.read.format("delta").load(f"{FOLDER}/t").count() == 3
    try:
        spark.sql(f"SELECT * FROM delta.`{FOLDER}/t` VERSION AS OF 99").collect()
    except anabranch.errors.DeltaError:
        pass
    else:
        raise AssertionError("there is no such version")
    during = attributes()
    assert {key for key in before if during[key] != before[key]}, "something is replaced"
    anabranch.disable(spark)
    NEW |= set(sys.modules) - imported
    after = attributes()
    assert purposes() == frozenset(), purposes()
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    assert not changed, sorted(changed)
spark.stop()
print("done")
