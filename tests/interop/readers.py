"""Programs other than ours that read Delta tables."""

from __future__ import annotations

from pathlib import Path

import deltalake
import duckdb
import duckdb_ext
import polars as pl
import pyarrow as pa
from pyiceberg.table import StaticTable


def read_by_delta_rs(root: str, version: int | None = None, storage_options: dict[str, str] | None = None) -> pa.Table:
    """The rows, through its query engine: the one that knows deletion vectors."""
    table = deltalake.DeltaTable(root, version=version, storage_options=storage_options)
    rows = deltalake.QueryBuilder().register("t", table).execute("SELECT * FROM t")
    return pa.table(rows.read_all())


def read_by_duckdb(root: str) -> pa.Table:
    """Delta's own Rust kernel, inside DuckDB."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    extension = next(Path(duckdb_ext.__path__[0]).rglob("delta.duckdb_extension"))
    connection.execute(f"LOAD '{extension}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection.execute("SELECT * FROM delta_scan($root)", {"root": root}).fetch_arrow_table()


def read_iceberg_by_duckdb(root: str) -> pa.Table:
    """A table with UniForm, by its Iceberg metadata: found through the version hint, maps as dictionaries."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "iceberg"):
        extension = next(Path(duckdb_ext.__path__[0]).rglob(f"{name}.duckdb_extension"))
        connection.execute(f"LOAD '{extension}'")
    return connection.execute(f"SELECT * FROM iceberg_scan('{root}')").fetch_arrow_table()


def read_iceberg_by_pyiceberg(root: str) -> pa.Table:
    """The same, by the library that wrote the metadata. It takes null lists for empty ones."""
    hint = (Path(root) / "metadata" / "version-hint.text").read_text()
    return StaticTable.from_metadata(f"{root}/metadata/v{hint}.metadata.json").scan().to_arrow()


def read_by_polars(root: str) -> pa.Table:
    return pl.read_delta(root).to_arrow()


READERS = {"delta-rs": read_by_delta_rs, "DuckDB": read_by_duckdb, "Polars": read_by_polars}
