"""The options of a write, read once and checked."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame

from anabranch.commands.option_names import check_names
from anabranch.commands.write_settings import Settings, application_of
from anabranch.errors.arguments import (
    InvalidOptionError,
    OverwriteSchemaDynamicError,
    ReplaceWhereDynamicError,
)
from anabranch.errors.dml import FilterOverwriteError, IncompatibleOptionsError, PartitionOverwriteError
from anabranch.spark.conditions.column_names import RowNames
from anabranch.spark.session.session_settings import flag_of, parse_flag

# The write options replaceOn and replaceUsing: what they say, and what they do not go with.


ON, USING = "replaceOn", "replaceUsing"


def check_replacement(given: Mapping[str, str], *, overwrites: bool) -> None:
    """Whether the other options go with one of the two; `given` are all of them, their names in small letters.

    Raises `IncompatibleOptionsError` and its kin, and `InvalidOptionError`.
    """
    named = ON if ON.lower() in given else USING
    if ON.lower() in given and USING.lower() in given:
        raise IncompatibleOptionsError(option=ON, other=USING)
    if "replacewhere" in given:
        raise FilterOverwriteError(option=named, other="replaceWhere")
    if "partitionoverwritemode" in given:
        raise PartitionOverwriteError(option=named, other="partitionOverwriteMode")
    if overwrites and flag_of(given, "overwriteSchema"):
        problem = "rows that stay would have another schema than those that come"
        raise IncompatibleOptionsError(option=named, other="overwriteSchema", problem=problem)
    if not flag_of(given, "dataChange", default=True):
        problem = "rows that are replaced change"
        raise IncompatibleOptionsError(option=named, other="dataChange=false", problem=problem)
    if named == USING:
        columns_listed(given[USING.lower()])


def columns_listed(text: str) -> tuple[str, ...]:
    """The columns that replaceUsing names, each once; backticks around a name are no part of it.

    Raises `InvalidOptionError`.
    """
    names = [_plain_name(part.strip()) for part in text.split(",")]
    if not all(names):
        problem = "it is a list of columns with commas between them, and a name is missing"
        raise InvalidOptionError(option=USING, value=text, problem=problem)
    return tuple(dict.fromkeys(names))


def _plain_name(name: str) -> str:
    quoted = len(name) > 1 and name[0] == name[-1] == "`"
    return name[1:-1].replace("``", "`") if quoted else name


_SETTINGS = "spark.databricks.delta."
_PARQUET = ("compression", "parquet.")


class SaveMode(enum.Enum):
    """What happens to a table that exists."""

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
            problem = "known modes are append, overwrite, error, errorifexists and ignore"
            raise InvalidOptionError(option="mode", value=text, problem=problem) from None

    @property
    def delta_name(self) -> str:
        """As `operationParameters.mode` spells it."""
        return _DELTA_NAMES[self]


_DELTA_NAMES = {
    SaveMode.APPEND: "Append",
    SaveMode.OVERWRITE: "Overwrite",
    SaveMode.ERROR_IF_EXISTS: "ErrorIfExists",
    SaveMode.IGNORE: "Ignore",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatchCondition:
    """A condition on rows of the table and those written, as Spark has read it."""

    column: Column
    """With names that are still to be resolved."""
    exists: Callable[[DataFrame, str | None], Column]
    """Whether one of these rows, by that alias, satisfies it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedRows:
    """The rows of the table that a write replaces, by a condition that may ask for the rows written."""

    condition: Column | str
    alias: str | None
    """What the condition calls the table."""
    told: Mapping[str, str]
    """For the log: what the user said, by the name that Delta has for it."""
    versions_read: frozenset[int]
    """The versions of the table that the rows written were made from, which are frozen and do not tell any more."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How to write, whatever way the user said it."""

    mode: SaveMode
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    path: str | None = None
    merge_schema: bool = False
    overwrite_schema: bool = False
    replace_where: str | Column | None = None
    """The condition on rows that the overwrite takes away."""
    check_replace_where: bool = True
    """Refuse rows that do not satisfy `replace_where`."""
    replace_on: str | None = None
    """A condition on rows of the table and those written, which says what an overwrite takes away."""
    replace_on_read: MatchCondition | None = None
    """The same, where Spark's parser has read it."""
    replace_using: str | None = None
    """Names of columns, with commas between them: equality in all of them says it."""
    target_alias: RowNames = None
    """What conditions call the table and its columns; or the columns by whose places those of the rows are meant."""
    replaced: ReplacedRows | None = None
    dynamic_partition_overwrite: bool = False
    application: tuple[str, int] | None = None
    """Application id and version that make the write idempotent."""
    reads_target: bool = False
    """The rows depend on all rows of the table, which their frame does not tell: so it is with a batch of a stream."""
    user_metadata: str | None = None
    conflict_retries: str | None = None
    """How often the write may be executed again after a conflict, as it was given."""
    max_records_per_file: int | None = None
    optimize_write: bool | None = None
    """Whether rows are brought together before they are written; None leaves it to the session and the table."""
    data_change: bool = True
    table_properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Options that start with `delta.`; they become properties of a new table."""
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
        settings: Settings,
    ) -> WriteOptions:
        """From what a DataFrame writer was told. Raises `InvalidOptionError` and `IncompatibleOptionsError`."""
        check_names(options)
        given = {key.lower(): value for key, value in options.items()}
        parsed = cls(
            mode=SaveMode.parse(mode),
            partition_by=tuple(map(_unquoted, partition_by)),
            cluster_by=tuple(map(_unquoted, cluster_by)),
            path=given.get("path"),
            merge_schema=flag_of(
                given, "mergeSchema", default=settings.setting(f"{_SETTINGS}schema.autoMerge.enabled") or False
            ),
            overwrite_schema=flag_of(given, "overwriteSchema"),
            replace_where=given.get("replacewhere"),
            replace_on=given.get("replaceon"),
            replace_using=given.get("replaceusing"),
            target_alias=given.get("targetalias"),
            check_replace_where=parse_flag(
                "replaceWhere.constraintCheck.enabled",
                settings.setting(f"{_SETTINGS}replaceWhere.constraintCheck.enabled", "true") or "true",
            ),
            dynamic_partition_overwrite=_dynamic(given, settings),
            application=application_of(given, settings),
            user_metadata=given.get("usermetadata", settings.setting(f"{_SETTINGS}commitInfo.userMetadata")),
            max_records_per_file=_max_records(given, settings),
            conflict_retries=given.get("conflictretries"),
            optimize_write=flag_of(given, "optimizeWrite") if "optimizewrite" in given else None,
            data_change=flag_of(given, "dataChange", default=True),
            table_properties={key: value for key, value in options.items() if key.lower().startswith("delta.")},
            file_system={key: value for key, value in options.items() if key.startswith(("fs.", "dfs."))},
            parquet=tuple((key, value) for key, value in options.items() if key.lower().startswith(_PARQUET)),
        )
        parsed._check(given, settings)
        if parsed.replaces_matches:
            check_replacement(given, overwrites=parsed.mode is SaveMode.OVERWRITE)
        return parsed

    @property
    def replaces_matches(self) -> bool:
        """Whether rows of the table that match rows written go."""
        return self.replace_on is not None or self.replace_using is not None

    @property
    def replaces_schema(self) -> bool:
        """Whether the table takes its columns from the rows: with a condition some rows stay, and so do the columns."""
        return self.overwrite_schema and self.mode is SaveMode.OVERWRITE and self.replace_where is None

    def replaces_all_rows(self, partition_columns: Sequence[str]) -> bool:
        """Whether no row stays that was in a table of these partitions."""
        some = self.replace_where is not None or self.replaced is not None
        by_partition = self.dynamic_partition_overwrite and bool(partition_columns)
        return self.mode is SaveMode.OVERWRITE and self.data_change and not some and not by_partition

    @property
    def replace_using_columns(self) -> tuple[str, ...]:
        """The columns that `replace_using` names, each once. Raises `InvalidOptionError`."""
        return columns_listed(self.replace_using or "")

    def _check(self, given: Mapping[str, str], settings: Settings) -> None:
        if self.replace_where is not None and self.mode is not SaveMode.OVERWRITE:
            problem = "replaceWhere goes with mode overwrite"
            raise InvalidOptionError(option="replaceWhere", value=str(self.replace_where), problem=problem)
        explicit_dynamic = given.get("partitionoverwritemode", "").lower() == "dynamic"
        if self.replace_where is not None and explicit_dynamic:
            problem = "it and partitionOverwriteMode=dynamic both say what is overwritten; use one of them"
            raise ReplaceWhereDynamicError(option="replaceWhere", value=str(self.replace_where), problem=problem)
        if self.replaces_schema and self.partition_by and _asks_for_partitions(given, settings):
            # Without partitions the word has no meaning, and all rows go, as in Delta.
            problem = "the schema can only be overwritten together with all rows, not by partition"
            raise OverwriteSchemaDynamicError(option="overwriteSchema", value="true", problem=problem)
        if not self.data_change and self.mode is not SaveMode.OVERWRITE:
            problem = "only an overwrite can leave the table's rows as they are"
            raise InvalidOptionError(option="dataChange", value="false", problem=problem)


def _unquoted(name: str) -> str:
    """The column that `partitionBy` means: Spark reads its arguments as SQL does, so odd names stand in backticks."""
    quoted = len(name) > 2 and name.startswith("`") and name.endswith("`")
    return name[1:-1].replace("``", "`") if quoted else name


def _dynamic(given: Mapping[str, str], settings: Settings) -> bool:
    asked = _asks_for_partitions(given, settings)
    return asked and "replacewhere" not in given and not flag_of(given, "overwriteSchema")


def _asks_for_partitions(given: Mapping[str, str], settings: Settings) -> bool:
    value = given.get("partitionoverwritemode")
    if value is None:
        value = settings.setting("spark.sql.sources.partitionOverwriteMode", "static") or "static"
    if value.lower() not in {"static", "dynamic"}:
        raise InvalidOptionError(option="partitionOverwriteMode", value=value, problem="it is static or dynamic")
    return value.lower() == "dynamic"


def _max_records(given: Mapping[str, str], settings: Settings) -> int | None:
    value = given.get("maxrecordsperfile", settings.setting("spark.sql.files.maxRecordsPerFile", "0") or "0")
    try:
        number = int(value)
    except ValueError:
        problem = "it must be a whole number; 0 or less means no limit"
        raise InvalidOptionError(option="maxRecordsPerFile", value=value, problem=problem) from None
    return number if number > 0 else None
