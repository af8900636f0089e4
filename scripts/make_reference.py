"""Writes the generated parts of docs/reference from the code that they describe.

    python scripts/make_reference.py            # brings the pages up to date
    python scripts/make_reference.py --check    # changes nothing; exit code 1 where a page is out of date

A generated part is between `<!-- generated: NAME -->` and `<!-- end: NAME -->`. The rest is written by hand.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

import anabranch.errors
from anabranch import exceptions, tables
from anabranch.cli.main import app
from anabranch.errors.base import DeltaAnalysisError, DeltaError
from anabranch.protocol.features import FEATURES, Feature, FeatureKind
from anabranch.protocol.property_table import PROPERTIES, PropertyRow

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"

SQL_TESTS = Path(__file__).parents[1] / "tests" / "session"
"""Each test that `statement` marks shows one form of a statement, and its docstring says what that does."""

FEATURE_TABLES = Path(__file__).parents[1] / "tests" / "interop" / "feature_tables.py"
"""The tables that tests exchange with other programs, and what those refuse."""

NOT_HERE = "Not in this version"
"""How the docstring of a method begins that refuses by name."""

_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}

ACTED_ON = {
    "delta.autoOptimize",
    "delta.autoOptimize.autoCompact",
    "delta.autoOptimize.optimizeWrite",
    "delta.appendOnly",
    "delta.checkpoint.writeStatsAsJson",
    "delta.checkpoint.writeStatsAsStruct",
    "delta.checkpointInterval",
    "delta.checkpointPolicy",
    "delta.columnMapping.maxColumnId",
    "delta.columnMapping.mode",
    "delta.compatibility.symlinkFormatManifest.enabled",
    "delta.dataSkippingNumIndexedCols",
    "delta.dataSkippingStatsColumns",
    "delta.dataSkippingStringPrefixLength",
    "delta.deletedFileRetentionDuration",
    "delta.dropFeatureTruncateHistory.retentionDuration",
    "delta.enableChangeDataFeed",
    "delta.enableDeletionVectors",
    "delta.enableExpiredLogCleanup",
    "delta.enableIcebergCompatV1",
    "delta.enableIcebergCompatV2",
    "delta.enableInCommitTimestamps",
    "delta.enableRowTracking",
    "delta.enableTypeWidening",
    "delta.enableVariantShredding",
    "delta.ignoreProtocolDefaults",
    "delta.inCommitTimestampEnablementTimestamp",
    "delta.inCommitTimestampEnablementVersion",
    "delta.isolationLevel",
    "delta.logRetentionDuration",
    "delta.minReaderVersion",
    "delta.minWriterVersion",
    "delta.parquet.compression.codec",
    "delta.parquet.format.version",
    "delta.randomPrefixLength",
    "delta.randomizeFilePrefixes",
    "delta.requireCheckpointProtectionBeforeVersion",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTrackingSuspended",
    "delta.setTransactionRetentionDuration",
    "delta.targetFileSize",
    "delta.universalFormat.enabledFormats",
    "delta.writePartitionColumnsToParquet",
}
"""Properties that change what anabranch does today."""

REFUSED = {
    "delta.coordinatedCommits.commitCoordinator-preview",
    "delta.enableIcebergCompatV3",
    "delta.enableMaterializePartitionColumnsFeature",
    "delta.redirectReaderWriter-preview",
    "delta.redirectWriterOnly-preview",
}
"""Properties that need a table feature which anabranch does not write."""

NOTHING_TO_DO = {
    "delta.castIcebergTimeType": "Iceberg tables are not converted",
    "delta.checkpointRetentionDuration": "as in Delta, clean-up keeps the checkpoints that readable versions need",
    "delta.coordinatedCommits.commitCoordinatorConf-preview": "there is no coordinator",
    "delta.coordinatedCommits.tableConf-preview": "there is no coordinator",
    "delta.enableChangeDataCapture": "as in Delta, only `delta.enableChangeDataFeed` counts",
    "delta.enableFullRetentionRollback": "every version within the retention can always be read",
    "delta.ignoreIcebergBucketPartition": "Iceberg tables are not converted",
    "delta.rowLevelConcurrencyPreview": "it is so wherever rows are deleted by vectors",
    "delta.sampleRetentionDuration": "there are no sample files",
    "delta.universalFormat.iceberg.atomicConversion.supported": "each commit is converted right after it",
}
"""Properties that are checked and kept, and why no more is to be done for them."""


def pages() -> dict[Path, str]:
    """Every page with generated parts, as it should be."""
    parts = {name: make() for name, make in PARTS.items()}
    texts = {path: path.read_text("utf-8") for path in sorted(REFERENCE.glob("*.md"))}
    missing = [name for name in parts if not any(_opening(name) in text for text in texts.values())]
    if missing:
        raise SystemExit(f"no page of {REFERENCE} has the comments for: {', '.join(missing)}")
    return {path: _filled(text, parts) for path, text in texts.items()}


def _filled(text: str, parts: dict[str, str]) -> str:
    for name, part in parts.items():
        before, opening, rest = text.partition(_opening(name))
        if opening:
            closing = f"<!-- end: {name} -->"
            text = f"{before}{opening}\n\n{part.strip()}\n\n{closing}{rest.split(closing, 1)[1]}"
    return text


def _opening(name: str) -> str:
    return f"<!-- generated: {name} -->"


def session_functions() -> str:
    """The functions of `anabranch`."""
    sections = []
    for name in ("session", "enable", "disable", "serve", "on_progress", "report", "transaction", "transact"):
        function = getattr(anabranch, name)
        sections.append(f"### `anabranch.{name}{_signature(function)}`\n\n{inspect.getdoc(function)}")
    return "\n\n".join(sections)


def table_classes() -> str:
    """The classes of `anabranch.tables`, method by method."""
    sections = []
    for name in tables.__all__:
        methods = list(_methods(getattr(tables, name)))
        rows = [(f"`{call}`", text) for call, text in methods if not text.startswith(NOT_HERE)]
        refused = [f"`{call.partition('(')[0]}`" for call, text in methods if text.startswith(NOT_HERE)]
        parts = [f"### `{name}`", str(inspect.getdoc(getattr(tables, name)))]
        if rows:
            parts.append(_table(("Call", "What it does"), rows))
        if refused:
            parts.append(
                "There, with Delta's arguments, but refused by name with `UnsupportedOperationError` in this "
                f"version: {', '.join(refused)}."
            )
        sections.append("\n\n".join(parts))
    return "\n\n".join(sections)


def _methods(cls: type) -> Iterator[tuple[str, str]]:
    for name, member in vars(cls).items():
        function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if not name.startswith("_") and inspect.isfunction(function):
            bound = getattr(cls, name) if isinstance(member, (classmethod, staticmethod)) else function
            yield f"{name}{_signature(bound)}", _paragraph(function)
    if dataclasses.is_dataclass(cls):
        yield f"{cls.__name__}{_signature(cls)}", "Made by calling the class."


def _signature(function: Callable[..., Any]) -> str:
    """The names and defaults of the parameters, without their types."""
    shown = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        star = _STARS.get(parameter.kind, "")
        default = "" if parameter.default is inspect.Parameter.empty else f"={parameter.default!r}"
        shown.append(f"{star}{parameter.name}{default}")
    return f"({', '.join(shown)})"


def conflict_exceptions() -> str:
    """What `anabranch.exceptions` holds."""
    rows = [
        (f"`{name}`", _paragraph(getattr(exceptions, name)))
        for name in exceptions.__all__
        if issubclass(getattr(exceptions, name), DeltaError)
    ]
    return _table(("Exception", "Raised when"), rows)


def conflict_fields() -> str:
    """The fields that every conflict has."""
    cls = exceptions.DeltaConcurrentModificationException
    notes = _notes_of(cls)
    rows = [(f"`{name}`", notes.get(name, "")) for name in cls.fact_names()]
    return _table(("Field", "What it holds"), rows)


def conflict_reasons() -> str:
    """The members of `ConflictReason`."""
    notes = _notes_of(exceptions.ConflictReason)
    rows = [(f"`{reason.value}`", notes.get(reason.name, "")) for reason in exceptions.ConflictReason]
    return _table(("Reason", "Meaning"), rows)


def property_rows() -> str:
    """The rows of `property_table`."""
    described = ACTED_ON | REFUSED | NOTHING_TO_DO.keys()
    if described != PROPERTIES.keys():
        raise SystemExit(f"properties without a description or no properties: {sorted(described ^ PROPERTIES.keys())}")
    rows = [
        (f"`{row.name}`", _default(row), row.expected, _sentence(row.description), _use(row))
        for row in sorted(PROPERTIES.values(), key=lambda row: row.name.lower())
    ]
    return _table(("Property", "Default", "Value", "Meaning", "Today"), rows)


def _default(row: PropertyRow) -> str:
    return "not set" if row.default is None else f"`{row.default}`" if row.default else "empty"


def _use(row: PropertyRow) -> str:
    use = "acted on" if row.name in ACTED_ON else "refused: its feature is not written"
    if row.name in NOTHING_TO_DO:
        use = f"nothing to do: {NOTHING_TO_DO[row.name]}"
    return use if row.settable else f"{use}; set by the table itself"


def feature_rows() -> str:
    """The rows of `feature_table`."""
    rows = [
        (f"`{row.name}`", row.kind.value, _yes(row.readable), _written(row))
        for row in sorted(FEATURES.values(), key=lambda row: (row.kind is FeatureKind.WRITER, row.name.lower()))
    ]
    return _table(("Feature", "Concerns", "Read", "Written"), rows)


def exchanged_features() -> str:
    """Which programs read and write tables with each feature, by the tables of the tests."""
    tables = _module_at(FEATURE_TABLES)
    uses = [
        ("delta-rs", tables.READS_REFUSED),
        ("delta-rs", tables.WRITES_REFUSED),
        ("DuckDB", tables.READS_REFUSED),
        ("Polars", tables.READS_REFUSED),
    ]
    rows = []
    for name, table in tables.TABLES.items():
        refusals = [refused.get((program, name)) for program, refused in uses]
        features = ", ".join(f"`{feature}`" for feature in table.features)
        rows.append(
            (name, features, "yes", *("yes" if refusal is None else f"no: {refusal.why}" for refusal in refusals))
        )
    header = ("Table", "Features", "delta-spark reads and writes", "delta-rs reads", "delta-rs writes")
    return _table((*header, "DuckDB reads", "Polars reads"), rows)


def _module_at(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _written(row: Feature) -> str:
    return _yes(row.writable)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def error_classes() -> str:
    """Every error, by the module it is in."""
    parts = []
    for module in _error_modules():
        classes = [cls for cls in vars(module).values() if _is_error_of(cls, module)]
        if classes:
            rows = [_error_row(cls) for cls in classes]
            table = _table(("Error", "Condition", "SQLSTATE", "When", "Fields"), rows)
            parts.append(f"## `{module.__name__}`\n\n{_paragraph(module)}\n\n{table}")
    return "\n\n".join(parts)


def _error_modules() -> list[ModuleType]:
    names = sorted(info.name for info in pkgutil.iter_modules(anabranch.errors.__path__))
    return [importlib.import_module(f"anabranch.errors.{name}") for name in names]


def _is_error_of(cls: Any, module: ModuleType) -> bool:
    return isinstance(cls, type) and issubclass(cls, DeltaError) and cls.__module__ == module.__name__


def _error_row(cls: type[DeltaError]) -> tuple[str, ...]:
    parent, *others = cls.__bases__
    kin = [base.__name__ for base in others]
    if parent not in {DeltaError, DeltaAnalysisError} and issubclass(parent, DeltaError):
        kin.insert(0, parent.__name__)
    also = f" Also `{'`, `'.join(kin)}`." if kin else ""
    fields = ", ".join(f"`{name}`" for name in cls.fact_names())
    return f"`{cls.__name__}`", f"`{cls.condition}`", f"`{cls.sqlstate}`", _first_sentence(cls) + also, fields


def commands() -> str:
    """The commands of the terminal, as `--help` explains them."""
    group: Any = typer.main.get_command(app)
    sections = [_command(name, command) for name, command in group.commands.items() if not command.hidden]
    return "\n\n".join([_joined(group.epilog), *sections])


def _command(name: str, command: Any) -> str:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    usage = " ".join([f"anabranch {name}", "[OPTIONS]", *(_placed(argument) for argument in arguments)])
    parts = [f"## `{name}`", _joined(command.help), f"```text\n{usage}\n```"]
    rows = [(f"`{argument.metavar}`", _described(argument)) for argument in arguments]
    rows += [(f"`{_spelled(option)}`", _described(option)) for option in options]
    parts.append(_table(("Argument or option", "What it does"), rows))
    if command.epilog:
        examples = command.epilog.replace("\b\n", "").partition("Examples:\n")[2]
        parts.append("```console\n" + "\n".join(f"$ {line.strip()}" for line in examples.splitlines()) + "\n```")
    return "\n\n".join(parts)


def _placed(argument: Any) -> str:
    return argument.metavar if argument.required else f"[{argument.metavar}]"


def _spelled(option: Any) -> str:
    metavar = option.metavar if option.metavar is not None else "" if option.is_flag else "NUMBER"
    return f"{', '.join(option.opts)} {metavar}".strip()


def _described(parameter: Any) -> str:
    is_flag = getattr(parameter, "is_flag", False)
    shown = parameter.default is not None and parameter.default is not ... and not is_flag and not parameter.required
    return f"{parameter.help or ''}{f' Default: `{parameter.default}`.' if shown else ''}"


def sql_statements() -> str:
    """The statements that the tests show, by the file they are in."""
    parts = []
    for path in sorted(SQL_TESTS.glob("test_sql_*.py"), key=_sql_order):
        module = ast.parse(path.read_text("utf-8"))
        rows = [(f"`{form}`", _joined(ast.get_docstring(test) or "")) for form, test in _shown_statements(module)]
        title = (ast.get_docstring(module) or "").rstrip(".")
        parts.append(f"## {title}\n\n{_table(('Statement', 'What it does'), rows)}")
    return "\n\n".join(parts)


def _sql_order(path: Path) -> int:
    order = [
        "tables",
        "inserts",
        "rows",
        "transactions",
        "composition",
        "views",
        "change_feed",
        "alterations",
        "descriptions",
        "optimize",
        "vacuum",
        "restore",
        "clone",
        "convert",
        "generate",
        "uniform",
        "parameters",
    ]
    return order.index(path.stem.removeprefix("test_sql_"))


def _shown_statements(module: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for test in module.body:
        for mark in test.decorator_list if isinstance(test, ast.FunctionDef) else ():
            if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "statement":
                assert isinstance(test, ast.FunctionDef)
                yield str(ast.literal_eval(mark.args[0])), test


def refused_sql() -> str:
    """The statements that the tests show to be refused."""
    module = ast.parse((SQL_TESTS / "test_refused_sql.py").read_text("utf-8"))
    (listed,) = (
        node.value
        for node in module.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "REFUSED"
    )
    return "\n".join(f"- `{text.replace('{t}', 't')}`" for text, _ in ast.literal_eval(listed))


def _notes_of(cls: type) -> dict[str, str]:
    """The texts below the attributes of a class."""
    body = ast.parse(inspect.getsource(cls)).body[0]
    assert isinstance(body, ast.ClassDef)
    notes = {}
    for statement, after in zip(body.body, body.body[1:], strict=False):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
        if isinstance(target, ast.Name) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            notes[target.id] = _joined(inspect.cleandoc(str(after.value.value)))
    return notes


def _paragraph(documented: Any) -> str:
    return _joined(str(inspect.getdoc(documented) or "").partition("\n\n")[0])


def _first_sentence(documented: Any) -> str:
    text = _paragraph(documented)
    end = re.search(r"[.!](?=\s|$)", text)
    return text[: end.end()] if end else text


def _sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}."


def _joined(text: str) -> str:
    """Paragraphs, each on one line."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PARTS: dict[str, Callable[[], str]] = {
    "session functions": session_functions,
    "table classes": table_classes,
    "conflict exceptions": conflict_exceptions,
    "conflict fields": conflict_fields,
    "conflict reasons": conflict_reasons,
    "properties": property_rows,
    "features": feature_rows,
    "exchanged features": exchanged_features,
    "errors": error_classes,
    "commands": commands,
    "sql statements": sql_statements,
    "refused sql": refused_sql,
}


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    stale = {path: text for path, text in pages().items() if path.read_text("utf-8") != text}
    for path, text in stale.items():
        if "--check" in arguments:
            print(f"{path} is out of date; run: python scripts/make_reference.py")
        else:
            path.write_text(text, "utf-8")
            print(f"wrote {path}")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
