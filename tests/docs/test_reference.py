"""The reference is what the code says."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest

from anabranch.errors.commits import ConflictReason

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "anabranch"
REFERENCE = ROOT / "docs" / "reference"
PYTHON_PAGE = (REFERENCE / "python.md").read_text("utf-8")
SETTINGS_PAGE = (REFERENCE / "settings.md").read_text("utf-8")

READ_BY_SPARK = {
    *("spark.sql.parquet.compression.codec", "spark.sql.ansi.enabled"),
    *("spark.hadoop.fs.…", "spark.hadoop.anabranch.hadoop.atomicRenameSchemes"),  # read through Hadoop's configuration
}
"""Settings on the page that the code does not name."""

NOT_FOR_USERS = {
    "spark.anabranch.tables.answered",  # by it a server reports to its clients what it supports
    "spark.sql.catalog.spark_catalog",  # these two request the jar, and are left out for its programs
    "spark.sql.catalogImplementation",
    "spark.sql.extensions",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.files.maxPartitionNum",
    "spark.sql.files.minPartitionNum",
    "spark.sql.files.openCostInBytes",
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
    "spark.sql.execution.id",  # of the running job, for its description
    "spark.sql.parquet.fieldId.read.ignoreMissing",
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


@pytest.fixture(scope="module")
def texts() -> set[str]:
    """Texts of the code."""
    return texts_of_code() | texts_of_java()


def test_every_setting_that_the_code_reads_is_on_the_page(texts: set[str]) -> None:
    read = {text for text in texts if re.fullmatch(r"spark\.(sql|anabranch|databricks)\.[\w.]*\w", text)}
    assert {"spark.anabranch.user", "spark.databricks.delta.optimize.batchSize"} <= read
    mentioned = set(re.findall(r"`(spark\.sql\.[\w.]+)`", SETTINGS_PAGE))
    assert sorted(read - NOT_FOR_USERS - rows_of_settings_page() - mentioned) == []


def test_the_code_reads_every_setting_on_the_page(texts: set[str]) -> None:
    prefixes = {text for text in texts if text.startswith("spark.") and text.endswith(".")}

    def is_read(name: str) -> bool:
        rest = {name.removeprefix(prefix) for prefix in prefixes if name.startswith(prefix)}
        return name in texts or bool(rest & (texts | {"X", "NAME", "NAME.warehouse"}))

    settings = {name for name in rows_of_settings_page() if name.startswith("spark.")}
    assert len(settings) >= 75
    assert sorted(name for name in settings - READ_BY_SPARK if not is_read(name)) == []


def test_variables_of_the_environment_are_on_the_page() -> None:
    read = {text for text in texts_of_code() if re.fullmatch(r"ANABRANCH_[A-Z_]+", text)} - conditions()
    assert read == {name for name in rows_of_settings_page() if name.startswith("ANABRANCH_")}


def rows_of_settings_page() -> set[str]:
    """The names with which rows of the page begin."""
    return set(re.findall(r"^\| `([^`]+)` \|", SETTINGS_PAGE, re.MULTILINE))


def texts_of_code() -> set[str]:
    """Each text in the Python code, with those that are put together from constants: `f"{PREFIX}maxThreads"`."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in SOURCE.rglob("*.py")}
    constants: dict[str, dict[str, str]] = {}
    for path in [*trees, *trees]:  # a constant may be made of one that a module further down has
        own = constants.setdefault(str(path), {})
        for name, value in assignments(trees[path]):
            text = text_of(value, own)
            if text is not None:
                own[name] = text
    shared = {name: text for own in constants.values() for name, text in own.items() if not name.startswith("_")}
    texts = {
        text_of(node, {**shared, **constants[str(path)]}) for path, tree in trees.items() for node in ast.walk(tree)
    }
    return {text for text in texts if text is not None}


def texts_of_java() -> set[str]:
    """Each text in the Java code."""
    return {text for path in SOURCE.rglob("*.java") for text in re.findall(r'"([\w.]+)"', path.read_text("utf-8"))}


def assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The names that a module assigns, with their values."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value


def text_of(node: ast.AST, constants: Mapping[str, str]) -> str | None:
    """The text that an expression is, by the constants; None where they do not say."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return constants.get(name)
        case ast.FormattedValue(value=value):
            return text_of(value, constants)
        case ast.JoinedStr(values=values):
            parts = [text_of(value, constants) for value in values]
            return None if None in parts else "".join(part for part in parts if part is not None)
        case _:
            return None


def test_every_setting_of_delta_is_acted_on_or_said_to_change_nothing() -> None:
    missing = [name for name in DELTA_HAS if name not in SETTINGS_PAGE]
    assert missing == []


def test_the_page_on_concurrency_has_every_reason() -> None:
    page = (ROOT / "docs" / "concurrency.md").read_text("utf-8").partition("| reason |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`([A-Z_]+)`", "\n".join(row.split("|")[1] for row in page.splitlines()[2:])))
    assert named == {reason.value for reason in ConflictReason}


def test_conditions_on_the_page_of_troubleshooting_exist() -> None:
    """A reader looks a message up by its condition, so one that is renamed must be renamed there."""
    page = (ROOT / "docs" / "howto" / "troubleshooting.md").read_text("utf-8")
    named = set(re.findall(r"`((?:DELTA|ANABRANCH)_[A-Z_]+)`", page)) - {"ANABRANCH_CACHE"}
    assert len(named) >= 20
    assert named - conditions() == set()


def conditions() -> set[str]:
    """The conditions of all errors."""
    return set(re.findall(r"`([A-Z_.]+)`", (REFERENCE / "errors.md").read_text("utf-8")))
