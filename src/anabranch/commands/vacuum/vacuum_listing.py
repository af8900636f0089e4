"""The files in the folder of a table, or in an inventory of it, that VACUUM may delete."""

from __future__ import annotations

import dataclasses
import functools
import operator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from anabranch.commands.table_access import TableRef
from anabranch.errors.maintenance import InventorySchemaError
from anabranch.protocol.data_paths import escape_path_name, file_root
from anabranch.protocol.log_paths import CHANGE_DATA_DIRECTORY, LOG_DIRECTORY
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.file_tree import TREE_SCHEMA
from anabranch.storage.log_store import LogStore, split_path

INDEX_PREFIX = "_delta_index"
ICEBERG_DIRECTORY = "metadata"
_FORMATS = "delta.universalFormat.enabledFormats"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hiding:
    """The names of hidden files and directories, which VACUUM leaves with all below them.

    Names that begin with `_` or `.` are hidden: the log, and files of other programs in the table's folder. Not hidden
    are the change data feed, indexes of files, and folders of partitions such as `_c=1`.
    """

    partition_columns: frozenset[str]
    """Logical and physical names."""
    iceberg: bool
    """Whether the table is also kept as an Iceberg table, whose metadata is not Delta's to delete."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> Hiding:
        """The hidden names for the columns and properties of `snapshot`."""
        return cls(
            partition_columns=frozenset({*snapshot.partition_columns, *snapshot.physical_partition_columns}),
            iceberg="iceberg" in (snapshot.properties.value(_FORMATS) or ()),
        )

    @functools.cached_property
    def _partition_prefixes(self) -> tuple[str, ...]:
        names = {*self.partition_columns, *map(escape_path_name, self.partition_columns)}
        return tuple(f"{name}=" for name in names if name.startswith(("_", ".")))

    def hides(self, name: str) -> bool:
        """Whether a file or directory of that name is hidden, in any folder."""
        if self.iceberg and name == ICEBERG_DIRECTORY:
            return True
        if not name.startswith(("_", ".")):
            return False
        if name == CHANGE_DATA_DIRECTORY or name.startswith(INDEX_PREFIX):
            return False
        return not name.startswith(self._partition_prefixes)

    def shown(self, listed: pa.Table) -> pa.Table:
        """The rows of `TREE_SCHEMA` that are not hidden and not below a hidden directory."""
        paths = listed["path"]
        suspicious = pc.match_substring_regex(paths, r"(?:^|/)[._]")
        if self.iceberg:
            suspicious = pc.or_(suspicious, pc.match_substring_regex(paths, f"(?:^|/){ICEBERG_DIRECTORY}(?:/|$)"))
        if not pc.any(suspicious).as_py():
            return listed
        below = functools.lru_cache(maxsize=None)(self._hides_within)
        kept = [
            not is_suspicious or not (self.hides(split_path(path)[1]) or below(split_path(path)[0]))
            for path, is_suspicious in zip(paths.to_pylist(), suspicious.to_pylist(), strict=True)
        ]
        return listed.filter(pa.array(kept, pa.bool_()))

    def _hides_within(self, directory: str) -> bool:
        return any(self.hides(name) for name in directory.split("/"))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inventory:
    """A listing of the table's folder that was not made by VACUUM."""

    rows: pa.Table
    """The columns of `TREE_SCHEMA`, with complete, plain paths. All values may be null."""
    roots: tuple[str, ...]
    """The prefixes of the paths of the table's files, all with a `/` at the end."""


def files_of_folder(store: LogStore, hiding: Hiding) -> pa.Table:
    """All files and directories of the table's folder, without hidden ones and those of other tables inside it.

    The columns are those of `TREE_SCHEMA`. Raises `StorageError`.
    """
    tables, shown = set[str](), [TREE_SCHEMA.empty_table()]

    def enters(directory: str) -> bool:
        above, name = split_path(directory)
        if name == LOG_DIRECTORY:
            tables.add(above)
        return not hiding.hides(name)

    for page in store.walk(enters):
        tables |= _tables_of(page["path"])
        shown.append(hiding.shown(page))
    return _without_tables(pa.concat_tables(shown), tables)


def files_of_inventory(inventory: Inventory, hiding: Hiding) -> pa.Table:
    """The same, from an inventory with complete paths. Of several rows for one path the newest counts.

    Paths below none of the roots, and paths that our listing could not have, are left out.
    """
    listed = inventory.rows
    paths, within = listed["path"], pa.chunked_array([pa.nulls(len(listed), pa.string())])
    for root in inventory.roots:
        below = pc.replace_substring_regex(paths, "^" + _quoted(root), "")
        within = pc.if_else(pc.starts_with(paths, root), below, within)
    plain = pc.replace_substring_regex(within, "/$", "")
    odd = pc.match_substring_regex(plain, r"(?:^|/)\.{0,2}(?:/|$)|\x00")
    usable = pc.and_(pc.is_valid(plain), pc.invert(pc.fill_null(odd, True)))
    usable = pc.and_(usable, pc.and_(pc.is_valid(listed["modified_ms"]), pc.is_valid(listed["is_directory"])))
    sizes = pc.fill_null(listed["size_bytes"], 0)
    columns = [plain, sizes, listed["modified_ms"], listed["is_directory"]]
    rows = pa.table(dict(zip(TREE_SCHEMA.names, columns, strict=True))).filter(usable)
    return _without_tables(hiding.shown(newest_by_path(rows)), _tables_of(rows["path"]))


def newest_by_path(rows: pa.Table) -> pa.Table:
    """The newest row for every path."""
    ordered = rows.select(TREE_SCHEMA.names).sort_by([("modified_ms", "descending")])
    newest = ordered.group_by("path", use_threads=False).aggregate(
        [(name, "first") for name in TREE_SCHEMA.names if name != "path"]
    )
    named = {name: newest[name if name == "path" else f"{name}_first"] for name in TREE_SCHEMA.names}
    return pa.table(named).cast(TREE_SCHEMA)


def _tables_of(paths: pa.ChunkedArray) -> set[str]:
    """The folders that have a log."""
    logs = paths.filter(pc.match_substring_regex(paths, f"(?:^|/){LOG_DIRECTORY}/"))
    return set(pc.unique(pc.replace_substring_regex(logs, f"(?:^|/){LOG_DIRECTORY}/.*", "")).to_pylist())


def _without_tables(listed: pa.Table, tables: set[str]) -> pa.Table:
    """The rows outside the folders of other tables, whose logs VACUUM does not read."""
    for folder in tables - {""}:
        theirs = pc.or_(pc.starts_with(listed["path"], f"{folder}/"), pc.equal(listed["path"], folder))
        listed = listed.filter(pc.invert(theirs))
    return listed


def _quoted(text: str) -> str:
    return "".join(f"\\x{{{ord(character):x}}}" if not character.isalnum() else character for character in text)


# `USING INVENTORY`: a listing of the table's folder, as storages offer them.


INVENTORY_SCHEMA = StructType(
    [
        StructField("path", StringType()),
        StructField("length", LongType()),
        StructField("isDir", BooleanType()),
        StructField("modificationTime", LongType()),
    ]
)


def inventory_of(table: TableRef, inventory: DataFrame) -> Inventory:
    """The rows below the table's folder.

    Paths are complete and plain, as `file:/t/a b.parquet`. Other columns are ignored. Raises
    `InventorySchemaError`.
    """
    types = {field.name: field.dataType for field in inventory.schema.fields}
    if any(types.get(field.name) != field.dataType for field in INVENTORY_SCHEMA):
        raise InventorySchemaError(
            table=table.label, found=_described(inventory.schema), expected=_described(INVENTORY_SCHEMA)
        )
    roots = _roots(table.path)
    is_below = functools.reduce(operator.or_, [F.col("path").startswith(root) for root in roots])
    columns = ("path", "length", "modificationTime", "isDir")
    rows = inventory.select(*columns).where(is_below).toArrow()
    return Inventory(rows=rows.rename_columns(TREE_SCHEMA.names), roots=roots)


def _roots(path: str) -> tuple[str, ...]:
    """The prefixes of complete paths of the table's files, longest first."""
    root = path.rstrip("/")
    spellings = [file_root(root), root] if not root.startswith("/") else [f"file://{root}", f"file:{root}", root]
    return tuple(f"{spelling}/" for spelling in dict.fromkeys(spellings))


def _described(schema: StructType) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)
