"""The reference is what the code says."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from anabranch.errors.commits import ConflictReason

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "anabranch"
PYTHON_PAGE = (ROOT / "docs" / "reference" / "python.md").read_text("utf-8")

NOT_FOR_USERS = {
    "spark.anabranch.tables.answered",  # by it a server reports to its clients what it supports
    "spark.sql.catalog.spark_catalog",  # these two request the jar, and are left out for its programs
    "spark.sql.catalogImplementation",
    "spark.sql.codegen.maxFields",
    "spark.sql.codegen.wholeStage",
    "spark.sql.extensions",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.files.minPartitionNum",
    "spark.sql.parquet.datetimeRebaseModeInWrite",
    "spark.sql.parquet.fieldId.read.enabled",
    "spark.sql.parquet.fieldId.write.enabled",
    "spark.sql.parquet.filterPushdown",
    "spark.sql.parquet.outputTimestampType",
    "spark.sql.parquet.writeLegacyFormat",
    "spark.sql.streaming.checkpointFileManagerClass",
    "spark.sql.streaming.fileSink.log.compactInterval",
    "spark.sql.variant.inferShreddingSchema",
    "spark.ui.enabled",
    "spark.ui.showConsoleProgress",
    "spark.sql.warehouse.dir",  # the two of Spark that `anabranch serve` sets
}
"""Settings that anabranch sets for itself, or reads to learn what Spark is going to do, or what a script is written for."""

DELTA_HAS = (
    *("alterLocation.bypassSchemaCheck", "autoCompact.enabled", "autoCompact.maxFileSize", "autoCompact.minNumFiles"),
    *("catalog.update.enabled", "changeDataFeed.timestampOutOfRange.enabled", "checkLatestSchemaOnRead"),
    *("checkpoint.partSize", "clusteredTable.enableClusteringTablePreview", "commitInfo.userMetadata"),
    *("commitMetrics.enabled", "constraints.assumesDropIfExists.enabled", "convert.iceberg.partitionEvolution.enabled"),
    *("convert.iceberg.useNativePartitionValues", "deltaLog.minorCompaction.useForReads", "history.metricsEnabled"),
    *("hudi.maxPendingCommits", "iceberg.maxPendingActions", "iceberg.maxPendingCommits", "lastCommitVersionInSession"),
    *("merge.materializeSource.maxAttempts", "merge.repartitionBeforeWrite.enabled", "optimize.repartition.enabled"),
    *("optimizeWrite.binSize", "optimizeWrite.enabled", "optimizeWrite.maxShufflePartitions"),
    *("optimizeWrite.numShuffleBlocks", "properties.defaults.", "replaceWhere.constraintCheck.enabled"),
    *("replaceWhere.dataColumns.enabled", "restore.protocolDowngradeAllowed", "retentionDurationCheck.enabled"),
    *("schema.autoMerge.enabled", "stalenessLimit", "tableFeatures.fastDropFeature.dvTombstoneCountThreshold"),
    *("uniform.iceberg.maxActionsToConvertForCommitLarge", "v2.enableMode", "vacuum.lite.enabled"),
    *("vacuum.logging.enabled", "vacuum.parallelDelete.enabled", "vacuum.parallelDelete.parallelism"),
    *("withEventTimeOrder.enabled", "write.txnAppId", "write.txnVersion", "write.txnVersion.autoReset.enabled"),
    *("writeChecksumFile.enabled",),
)
"""Settings, without `spark.databricks.delta.`, that delta-spark 4.4 does not call internal, or that its documentation names.
Those of CONVERT are on the page about it."""


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def make_reference() -> ModuleType:
    return script("make_reference")


def test_pages_are_up_to_date(make_reference: ModuleType) -> None:
    """Run `python scripts/make_reference.py` where this fails, and read what it changed."""
    stale = [path.name for path, text in make_reference.pages().items() if path.read_text("utf-8") != text]
    assert stale == []


def test_the_index_of_errors_is_up_to_date() -> None:
    """Run `python scripts/make_error_index.py` where this fails."""
    text = (SOURCE / "errors" / "__init__.py").read_text("utf-8")
    assert script("make_error_index").with_index(text) == text


def test_every_write_option_is_listed() -> None:
    """The page has every option that the code reads."""
    source = (SOURCE / "commands" / "write" / "write_options.py").read_text("utf-8")
    read = {name.lower() for name in re.findall(r'values\.get\("(\w+)"', source)}
    read |= {name.lower() for name in re.findall(r'flag_of\(\s*values, "(\w+)"', source)}
    assert len(read) >= 7, "the options are no longer found this way"
    listed = {name.lower() for name in re.findall(r"^\| `(\w+)`", PYTHON_PAGE, re.MULTILINE)}
    assert read - listed == set()


def test_every_session_setting_is_listed() -> None:
    """Settings are found in the code by how they are spelled."""
    sources = [path.read_text("utf-8") for path in SOURCE.rglob("*.py")]
    found = {
        name for source in sources for name in re.findall(r'"(spark\.(?:sql|anabranch|databricks)\.[\w.]*\w)"', source)
    }
    found |= {
        f"spark.databricks.delta.{rest}"
        for source in sources
        for rest in re.findall(r'f"\{_SETTINGS\}([\w.]+)"', source)
    }
    assert "spark.anabranch.user" in found
    missing = [name for name in sorted(found - NOT_FOR_USERS) if name not in PYTHON_PAGE]
    assert missing == []


def test_every_setting_of_delta_is_acted_on_or_said_to_change_nothing() -> None:
    section = PYTHON_PAGE.partition("## Session settings")[2].partition("## Table properties")[0]
    missing = [name for name in DELTA_HAS if name not in section]
    assert missing == []


def test_the_page_on_concurrency_has_every_reason() -> None:
    page = (ROOT / "docs" / "concurrency.md").read_text("utf-8").partition("| reason |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`([A-Z_]+)`", "\n".join(row.split("|")[1] for row in page.splitlines()[2:])))
    assert named == {reason.value for reason in ConflictReason}


def test_conditions_on_the_page_of_troubleshooting_exist() -> None:
    """A reader looks a message up by its condition, so one that is renamed must be renamed there."""
    page = (ROOT / "docs" / "howto" / "troubleshooting.md").read_text("utf-8")
    named = set(re.findall(r"`((?:DELTA|ANABRANCH)_[A-Z_]+)`", page)) - {"ANABRANCH_CACHE"}
    conditions = set(re.findall(r"`([A-Z_.]+)`", (ROOT / "docs" / "reference" / "errors.md").read_text("utf-8")))
    assert len(named) >= 20
    assert named - conditions == set()
