"""The options of a write, read once and checked."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame

from anabranch.booleans import flag_of, parse_flag
from anabranch.errors.arguments import (
    InvalidOptionError,
    OverwriteSchemaDynamicError,
    ReplaceWhereDynamicError,
)
from anabranch.errors.dml import FilterOverwriteError, IncompatibleOptionsError, PartitionOverwriteError
from anabranch.spark.conditions.column_names import RowNames
from anabranch.spark.session.session_settings import SessionSettings, Settings, application_of, check_names

ON, USING = "replaceOn", "replaceUsing"
_FLAGS = ("mergeSchema", "overwriteSchema", "optimizeWrite", "dataChange")
"""The options that are true or false."""


def check_replacement(values: Mapping[str, str], *, overwrites: bool) -> None:
    """Check that the other options go with replaceOn or replaceUsing; `values` are all options by lower-case names.

    Raises `IncompatibleOptionsError` and its subclasses, and `InvalidOptionError`.
    """
    named = ON if ON.lower() in values else USING
    if ON.lower() in values and USING.lower() in values:
        raise IncompatibleOptionsError(option=ON, other=USING)
    if "replacewhere" in values:
        raise FilterOverwriteError(option=named, other="replaceWhere")
    if "partitionoverwritemode" in values:
        raise PartitionOverwriteError(option=named, other="partitionOverwriteMode")
    if overwrites and flag_of(values, "overwriteSchema"):
        problem = "rows that stay would have another schema than the new ones"
        raise IncompatibleOptionsError(option=named, other="overwriteSchema", problem=problem)
    if not flag_of(values, "dataChange", default=True):
        problem = "replaced rows are changed rows"
        raise IncompatibleOptionsError(option=named, other="dataChange=false", problem=problem)
    if named == USING:
        columns_listed(values[USING.lower()])


def columns_listed(text: str) -> tuple[str, ...]:
    """The columns that replaceUsing names, without repetitions and without backticks around the names.

    Raises `InvalidOptionError`.
    """
    names = [_plain_name(part.strip()) for part in text.split(",")]
    if not all(names):
        problem = "it must be a list of columns separated by commas, and a name is missing"
        raise InvalidOptionError(option=USING, value=text, problem=problem)
    return tuple(dict.fromkeys(names))


def _plain_name(name: str) -> str:
    quoted = len(name) > 1 and name[0] == name[-1] == "`"
    return name[1:-1].replace("``", "`") if quoted else name


_SETTINGS = "spark.databricks.delta."
_PARQUET = ("compression", "parquet.")


class SaveMode(enum.Enum):
    """What a write does with a table that exists."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    ERROR_IF_EXISTS = "errorifexists"
    IGNORE = "ignore"

    @classmethod
    def parse(cls, text: str) -> SaveMode:
        name = text.lower()
        if name in {"error", "default"}:
            return cls.ERROR_IF_EXISTS
        try:
            return cls(name)
        except ValueError:
            problem = "the modes are append, overwrite, error, errorifexists and ignore"
            raise InvalidOptionError(option="mode", value=text, problem=problem) from None

    @property
    def delta_name(self) -> str:
        """The mode as `operationParameters.mode` spells it."""
        return _DELTA_NAMES[self]


_DELTA_NAMES = {
    SaveMode.APPEND: "Append",
    SaveMode.OVERWRITE: "Overwrite",
    SaveMode.ERROR_IF_EXISTS: "ErrorIfExists",
    SaveMode.IGNORE: "Ignore",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatchCondition:
    """A condition on rows of the table and written rows, as Spark has parsed it."""

    column: Column
    """The condition with unresolved names."""
    exists: Callable[[DataFrame, str | None], Column]
    """The condition that one of these rows, which have that alias, satisfies it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedRows:
    """The rows of the table that a write replaces, by a condition that may read the written rows."""

    condition: Column | str
    alias: str | None
    """The name of the table in the condition."""
    log_parameters: Mapping[str, str]
    """The condition as the user wrote it, by its name in Delta's `operationParameters`."""
    versions_read: frozenset[int]
    """The versions of the table from which the written rows are made. They are evaluated once, so their plan does not
    show it any more."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of a write, from a DataFrame writer or from a statement."""

    mode: SaveMode
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    path: str | None = None
    merge_schema: bool = False
    overwrite_schema: bool = False
    replace_where: str | Column | None = None
    """The condition on rows that the overwrite replaces."""
    check_replace_where: bool = True
    """Whether rows that do not satisfy `replace_where` are refused."""
    replace_on: str | None = None
    """The condition, on rows of the table and written rows, on rows that the overwrite replaces."""
    replace_on_read: MatchCondition | None = None
    """The same condition where Spark has parsed it."""
    replace_using: str | None = None
    """Names of columns, separated by commas: an overwrite replaces the rows that equal a written row in all of them."""
    target_alias: RowNames = None
    """The name of the table in conditions, or its columns as Spark has resolved them."""
    resolved_version: int | None = None
    """The version that was looked up for just this write, whose rows do not depend on the table; None if unknown."""
    replaced: ReplacedRows | None = None
    dynamic_partition_overwrite: bool = False
    application: tuple[str, int] | None = None
    """Application id and version that make the write idempotent."""
    reads_target: bool = False
    """Whether the rows depend on all rows of the table although their frame does not show it, as those of a stream's
    batch may."""
    user_metadata: str | None = None
    conflict_retries: str | None = None
    """How often the write may be executed again after a conflict, as the user wrote it."""
    max_records_per_file: int | None = None
    optimize_write: bool | None = None
    """Whether rows are shuffled to make fewer files; None leaves it to the session and the table."""
    data_change: bool = True
    table_properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Options that start with `delta.`, which become properties of a new table."""
    file_system: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Options that start with `fs.`, for this table's storage."""
    parquet: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(
        cls,
        options: Mapping[str, str],
        *,
        mode: str,
        partition_by: tuple[str, ...],
        cluster_by: tuple[str, ...],
        settings: SessionSettings,
    ) -> WriteOptions:
        """Parse the options of a DataFrame writer. Raises `InvalidOptionError` and `IncompatibleOptionsError`."""
        check_names(options)
        values = {key.lower(): value for key, value in options.items()}
        flags = {name: parse_flag(name, values[name.lower()]) for name in _FLAGS if name.lower() in values}
        parsed = cls(
            mode=SaveMode.parse(mode),
            partition_by=tuple(map(_unquoted, partition_by)),
            cluster_by=tuple(map(_unquoted, cluster_by)),
            path=values.get("path"),
            merge_schema=flags["mergeSchema"]
            if "mergeSchema" in flags
            else settings.flag(f"{_SETTINGS}schema.autoMerge.enabled", default=False),
            overwrite_schema=flags.get("overwriteSchema", False),
            replace_where=values.get("replacewhere"),
            replace_on=values.get("replaceon"),
            replace_using=values.get("replaceusing"),
            target_alias=values.get("targetalias"),
            check_replace_where=settings.flag(f"{_SETTINGS}replaceWhere.constraintCheck.enabled", default=True),
            dynamic_partition_overwrite=_is_dynamic_mode(values, settings)
            and "replacewhere" not in values
            and not flags.get("overwriteSchema", False),
            application=application_of(values, settings),
            user_metadata=values.get("usermetadata", settings.setting(f"{_SETTINGS}commitInfo.userMetadata")),
            max_records_per_file=_max_records(values, settings),
            conflict_retries=values.get("conflictretries"),
            optimize_write=flags.get("optimizeWrite"),
            data_change=flags.get("dataChange", True),
            table_properties={key: value for key, value in options.items() if key.lower().startswith("delta.")},
            file_system={key: value for key, value in options.items() if key.startswith(("fs.", "dfs."))},
            parquet=tuple((key, value) for key, value in options.items() if key.lower().startswith(_PARQUET)),
        )
        parsed._check(values, settings)
        if parsed.replaces_matches:
            check_replacement(values, overwrites=parsed.mode is SaveMode.OVERWRITE)
        return parsed

    @property
    def replaces_matches(self) -> bool:
        """Whether the write replaces rows of the table that match written rows."""
        return self.replace_on is not None or self.replace_using is not None

    @property
    def replaces_schema(self) -> bool:
        """Whether the table takes its columns from the rows. With a condition some rows stay, and so do the columns."""
        return self.overwrite_schema and self.mode is SaveMode.OVERWRITE and self.replace_where is None

    def replaces_all_rows(self, partition_columns: Sequence[str]) -> bool:
        """Whether the write replaces all rows of a table with these partition columns."""
        some = self.replace_where is not None or self.replaced is not None
        by_partition = self.dynamic_partition_overwrite and bool(partition_columns)
        return self.mode is SaveMode.OVERWRITE and self.data_change and not some and not by_partition

    @property
    def replace_using_columns(self) -> tuple[str, ...]:
        """The columns that `replace_using` names, without repetitions. Raises `InvalidOptionError`."""
        return columns_listed(self.replace_using or "")

    def _check(self, values: Mapping[str, str], settings: Settings) -> None:
        if self.replace_where is not None and self.mode is not SaveMode.OVERWRITE:
            problem = "replaceWhere needs mode overwrite"
            raise InvalidOptionError(option="replaceWhere", value=str(self.replace_where), problem=problem)
        explicit_dynamic = values.get("partitionoverwritemode", "").lower() == "dynamic"
        if self.replace_where is not None and explicit_dynamic:
            problem = "it and partitionOverwriteMode=dynamic both say what is overwritten; use one of them"
            raise ReplaceWhereDynamicError(option="replaceWhere", value=str(self.replace_where), problem=problem)
        if self.replaces_schema and self.partition_by and _is_dynamic_mode(values, settings):
            # Without partitions dynamic overwrite has no meaning, and all rows are replaced, as in Delta.
            problem = "the schema can only be overwritten together with all rows, not by partition"
            raise OverwriteSchemaDynamicError(option="overwriteSchema", value="true", problem=problem)
        if not self.data_change and self.mode is not SaveMode.OVERWRITE:
            problem = "only an overwrite can leave the table's rows as they are"
            raise InvalidOptionError(option="dataChange", value="false", problem=problem)


def _unquoted(name: str) -> str:
    """The column that `partitionBy` means. Spark parses its arguments as SQL, so that odd names need backticks."""
    quoted = len(name) > 2 and name.startswith("`") and name.endswith("`")
    return name[1:-1].replace("``", "`") if quoted else name


def _is_dynamic_mode(values: Mapping[str, str], settings: Settings) -> bool:
    value = values.get("partitionoverwritemode")
    if value is None:
        value = settings.setting("spark.sql.sources.partitionOverwriteMode", "static") or "static"
    if value.lower() not in {"static", "dynamic"}:
        raise InvalidOptionError(option="partitionOverwriteMode", value=value, problem="it is static or dynamic")
    return value.lower() == "dynamic"


def _max_records(values: Mapping[str, str], settings: Settings) -> int | None:
    value = values.get("maxrecordsperfile", settings.setting("spark.sql.files.maxRecordsPerFile", "0") or "0")
    try:
        number = int(value)
    except ValueError:
        problem = "it must be a whole number; 0 or less means no limit"
        raise InvalidOptionError(option="maxRecordsPerFile", value=value, problem=problem) from None
    return number if number > 0 else None
