"""`DeltaTableBuilder`, with the names and arguments of Delta's Python API."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructField, StructType

from anabranch.commands.definition.create_table import CreationMode, create_table
from anabranch.commands.definition.table_definition import TableDefinition
from anabranch.commands.table_access import TableRef, table_at, table_to_create
from anabranch.errors.arguments import InvalidArgumentError
from anabranch.schema.computed_columns import generated_column, identity_column
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import PathIdentifier, parse_identifier

if TYPE_CHECKING:
    from anabranch.tables.delta_table import DeltaTable


@dataclasses.dataclass
class IdentityGenerator:
    """The numbers of an identity column: `start`, `start + step`, …"""

    start: int = 1
    step: int = 1


class DeltaTableBuilder:
    """Says step by step what table to create or replace; `execute` does it.

    It needs a name or a location, or both.
    """

    def __init__(self, spark: SparkSession, mode: CreationMode, table_class: type[DeltaTable]) -> None:
        self._spark = spark
        self._mode = mode
        self._table_class = table_class
        self._name: str | None = None
        self._location: str | None = None
        self._comment: str | None = None
        self._fields: list[StructField] = []
        self._partition_columns: tuple[str, ...] = ()
        self._clustering_columns: tuple[str, ...] = ()
        self._properties: dict[str, str] = {}

    def tableName(self, identifier: str) -> DeltaTableBuilder:
        """The table's name, or delta.`path`."""
        self._name = _text(identifier, "Identifier must be str.")
        return self

    def location(self, location: str) -> DeltaTableBuilder:
        """The folder for the table's files."""
        self._location = _text(location, "Location must be str.")
        return self

    def comment(self, comment: str) -> DeltaTableBuilder:
        """What the table is about."""
        self._comment = _text(comment, "Table comment must be str.")
        return self

    def addColumn(
        self,
        colName: str,
        dataType: str | DataType,
        nullable: bool = True,
        generatedAlwaysAs: str | IdentityGenerator | None = None,
        generatedByDefaultAs: IdentityGenerator | None = None,
        comment: str | None = None,
    ) -> DeltaTableBuilder:
        """One more column, after those there are."""
        name = _text(colName, "Column name must be str.")
        if not isinstance(dataType, (str, DataType)):
            _raise_type_error("Column data type must be str or DataType.", [dataType])
        if not isinstance(nullable, bool):
            _raise_type_error("Column nullable must be bool.", [nullable])
        metadata = {} if comment is None else {"comment": _text(comment, "Column comment must be str.")}
        parsed = dataType if isinstance(dataType, DataType) else DataType.fromDDL(dataType)
        field = StructField(name, parsed, nullable, metadata)
        self._fields.append(_generated(field, generatedAlwaysAs, generatedByDefaultAs))
        return self

    def addColumns(self, cols: StructType | list[StructField]) -> DeltaTableBuilder:
        """Columns of an existing schema, after those there are."""
        if isinstance(cols, list):
            for field in cols:
                if not isinstance(field, StructField):
                    _raise_type_error("Column in existing schema must be StructField.", [field])
            cols = StructType(cols)
        if not isinstance(cols, StructType):
            _raise_type_error("Schema must be StructType or a list of StructField.", [cols])
        self._fields += cols.fields
        return self

    def partitionedBy(self, *cols: str | list[str] | tuple[str, ...]) -> DeltaTableBuilder:
        """The columns whose values the files are kept apart by."""
        self._partition_columns = _names(cols, "Partitioning column must be str.")
        return self

    def clusterBy(self, *cols: str | list[str] | tuple[str, ...]) -> DeltaTableBuilder:
        """The columns that OPTIMIZE sorts rows by."""
        self._clustering_columns = _names(cols, "Clustering column must be str.")
        return self

    def property(self, key: str, value: str) -> DeltaTableBuilder:
        """A table property."""
        if not isinstance(key, str) or not isinstance(value, str):
            _raise_type_error("Key and value of property must be string.", [key, value])
        self._properties[key] = value
        return self

    def execute(self) -> DeltaTable:
        """Create or replace the table, and give it back."""
        definition = TableDefinition(
            schema=StructType(self._fields),
            partition_columns=self._partition_columns,
            clustering_columns=self._clustering_columns,
            properties=self._properties,
            description=self._comment,
        )
        handle = create_table(self._handle(), definition, self._mode)
        return self._table_class(self._spark, handle)

    def _handle(self) -> TableRef:
        session = DeltaSession.of(self._spark)
        if self._name is None:
            if self._location is None:
                problem = "a table needs a name or a location; call tableName or location"
                raise InvalidArgumentError(argument="tableName", value="", problem=problem)
            return table_at(session, self._location)
        identifier = parse_identifier(self._name)
        if isinstance(identifier, PathIdentifier):
            if self._location not in {None, identifier.path}:
                problem = f"the name says {identifier.path}"
                raise InvalidArgumentError(argument="location", value=str(self._location), problem=problem)
            return table_at(session, identifier.path)
        return table_to_create(session, identifier, location=self._location, replaces=self._mode.replaces)


def _generated(
    field: StructField, always: str | IdentityGenerator | None, by_default: IdentityGenerator | None
) -> StructField:
    if always is not None and by_default is not None:
        message = "generatedByDefaultAs and generatedAlwaysAs cannot both be set."
        raise ValueError(message, [by_default, always])
    if isinstance(always, str):
        return generated_column(field, always)
    if always is not None:
        if not isinstance(always, IdentityGenerator):
            _raise_type_error("Generated always as expression must be str or IdentityGenerator.", [always])
        return _identity(field, always, allow_explicit=False)
    if by_default is not None:
        if not isinstance(by_default, IdentityGenerator):
            _raise_type_error("Generated by default expression must be IdentityGenerator.", [by_default])
        return _identity(field, by_default, allow_explicit=True)
    return field


def _identity(field: StructField, generator: IdentityGenerator, *, allow_explicit: bool) -> StructField:
    if generator.step == 0:
        message = "Column identity generation requires step to be non-zero."
        raise ValueError(message)
    return identity_column(field, start=generator.start, step=generator.step, allow_explicit=allow_explicit)


def _names(columns: tuple[Any, ...], message: str) -> tuple[str, ...]:
    given = tuple(columns[0]) if len(columns) == 1 and isinstance(columns[0], (list, tuple)) else columns
    return tuple(_text(column, message) for column in given)


def _text(value: Any, message: str) -> str:
    if not isinstance(value, str):
        _raise_type_error(message, [value])
    return value


def _raise_type_error(message: str, values: Iterable[Any]) -> NoReturn:
    found = "".join(f" Found {value} with type {type(value)}" for value in values)
    raise TypeError(f"{message}{found}")
