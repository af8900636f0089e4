"""What an import of `delta`, and of PySpark, gives once the hook is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

INSTALL = "from anabranch.auto.import_hook import install; install()\n"


def test_delta_is_answered_by_us(python: Run) -> None:
    done = python(
        "-c",
        INSTALL + "import sys, delta, importlib.util\n"
        "import delta.connect.tables\n"
        "from delta.tables import DeltaTable\n"
        "from delta.exceptions import ConcurrentAppendException\n"
        "import anabranch.exceptions, anabranch.tables\n"
        "assert DeltaTable is anabranch.tables.DeltaTable is delta.connect.tables.DeltaTable\n"
        "assert ConcurrentAppendException is anabranch.exceptions.ConcurrentAppendException\n"
        "assert delta.exceptions.base.ConcurrentAppendException is ConcurrentAppendException\n"
        "assert importlib.util.find_spec('delta.tables') is not None\n"
        "assert importlib.util.find_spec('delta.nothing') is None\n"
        "importlib.reload(delta)\n"
        "print(delta)",
    )
    assert done.stderr == ""
    assert done.stdout == "<module 'delta' (anabranch)>\n"


def test_all_names_by_stars(python: Run) -> None:
    done = python(
        "-c",
        INSTALL
        + "from delta import *\nprint(DeltaTable.__name__, configure_spark_with_delta_pip.__name__, __version__)\n"
        "from delta.tables import *\nprint(StructType.__name__, functions.__name__, DeltaMergeBuilder.__name__)\n"
        "from delta.exceptions import *\nprint(MetadataChangedException.__name__, 'ConflictReason' in globals())",
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "DeltaTable configure_spark_with_delta_pip 4.4.1",
        "StructType pyspark.sql.functions DeltaMergeBuilder",
        "MetadataChangedException False",
    ]


def package(folder: Path, **files: str) -> Path:
    """A package `delta` in `folder`, with these modules."""
    (folder / "delta").mkdir(parents=True)
    for name, text in files.items():
        (folder / "delta" / f"{name}.py").write_text(text)
    return folder


def test_delta_spark_gives_way_and_the_log_says_so(python: Run, tmp_path: Path) -> None:
    installed = package(tmp_path / "packages", __init__="theirs = True", pip_utils="", tables="", other="")
    done = python(
        "-c",
        "import logging; logging.basicConfig(level=logging.INFO)\n" + INSTALL + "import delta\n"
        "print(delta.DeltaTable.__module__, hasattr(delta, 'theirs'))\n"
        "try:\n  import delta.other\nexcept ModuleNotFoundError as error:\n  print(error)",
        PYTHONPATH=str(installed),
    )
    assert done.stdout.splitlines() == ["anabranch.tables.delta_table False", "No module named 'delta.other'"]
    assert f"`import delta` imports anabranch, not the delta-spark in {installed}" in done.stderr


def test_a_module_of_the_users_own_stays_theirs(python: Run, tmp_path: Path) -> None:
    """`delta` is a word; many have a module or a package of that name."""
    own = package(tmp_path / "own", __init__="", tables="mine = 1")
    done = python("-c", INSTALL + "from delta.tables import mine; print(mine)", PYTHONPATH=str(own))
    assert (done.stdout, done.stderr) == ("1\n", "")
    (tmp_path / "here" / "delta.py").write_text("mine = 2")
    done = python("-c", INSTALL + "from delta import mine; print(mine)")
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_a_folder_of_tables_is_no_module(python: Run, tmp_path: Path) -> None:
    (tmp_path / "here" / "delta" / "sales").mkdir(parents=True)
    done = python("-c", INSTALL + "import delta; print(delta.__version__)")
    assert done.stdout == "4.4.1\n"


WRAPPED = (
    "from pyspark import SparkContext\nfrom pyspark.sql import SparkSession\n"
    "import pyspark.sql.session as module\n"
    "marks = [hasattr(f, '__wrapped__') for f in (SparkSession.__init__, SparkSession.Builder.create, "
    "SparkSession.Builder.getOrCreate, SparkContext._ensure_initialized)]\n"
    "print(marks, type(module.__loader__).__name__, type(module.__spec__.loader).__name__)\n"
)
EXPECTED = "[True, True, True, True] SourceFileLoader SourceFileLoader\n"


@pytest.mark.parametrize(
    "code",
    [
        INSTALL + WRAPPED,
        "import pyspark.sql\n" + INSTALL + WRAPPED,
        INSTALL + INSTALL + WRAPPED,
        INSTALL + "import importlib, pyspark.sql.session\nimportlib.reload(pyspark.core.context)\n" + WRAPPED,
    ],
    ids=["before", "after", "twice", "reloaded"],
)
def test_pyspark_is_wrapped_as_it_is_loaded(python: Run, code: str) -> None:
    done = python("-c", code)
    assert done.stderr == ""
    assert done.stdout == EXPECTED


def test_connect_is_wrapped_when_it_is_loaded(python: Run) -> None:
    done = python(
        "-c",
        INSTALL + "import sys, pyspark.sql\nprint('pyspark.sql.connect.session' in sys.modules)\n"
        "from pyspark.sql.connect.session import SparkSession\nprint(hasattr(SparkSession.__init__, '__wrapped__'))",
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["False", "True"]


def test_the_hook_imports_neither_pyspark_nor_tables(python: Run) -> None:
    """The hook is in every Python of an environment that imports PySpark, workers of Spark included."""
    done = python(
        "-c",
        INSTALL
        + "import sys\nprint([name for name in sys.modules if name.startswith(('pyspark', 'pyarrow', 'numpy'))])",
    )
    assert done.stdout == "[]\n"


def test_settings_before_there_is_a_jvm(python: Run) -> None:
    """A substitute for PySpark's JVM that records the arguments of its start."""
    done = python(
        "-c",
        "import os, types\n"
        "from anabranch.auto.contexts import watch_contexts\n"
        "from pyspark import SparkConf\n"
        "class System:\n"
        "  properties = {'spark.sql.extensions': 'io.delta.sql.DeltaSparkSessionExtension,x.Y'}\n"
        "  getProperty = properties.get\n"
        "  setProperty = properties.__setitem__\n"
        "  clearProperty = properties.pop\n"
        "class SparkContext:\n"
        "  _jvm = type('Jvm', (), {'java.lang.System': System})\n"
        "  @classmethod\n"
        "  def _ensure_initialized(cls, instance=None, gateway=None, conf=None):\n"
        "    print(sorted(conf.getAll()), os.environ['PYSPARK_SUBMIT_ARGS'])\n"
        "watch_contexts(types.SimpleNamespace(SparkContext=SparkContext))\n"
        "conf = SparkConf().set('spark.jars.packages', 'io.delta:delta-spark_2.13:4.0.0,a:b:1')"
        ".set('spark.sql.catalog.spark_catalog', 'org.apache.spark.sql.delta.catalog.DeltaCatalog').set('spark.x', '1')\n"
        "SparkContext._ensure_initialized(conf=conf)\n"
        "print(System.properties)\n",
        PYSPARK_SUBMIT_ARGS="--packages io.delta:delta-spark_2.13:4.0.0 pyspark-shell",
    )
    assert done.stdout.splitlines() == [
        "[('spark.jars.packages', 'a:b:1'), ('spark.x', '1')] pyspark-shell",
        "{'spark.sql.extensions': 'x.Y'}",
    ]
    warnings = done.stderr.splitlines()
    assert len(warnings) == 2
    assert "spark.jars.packages=io.delta:delta-spark_2.13:4.0.0" in warnings[0]
    assert warnings[1].endswith("spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension")
