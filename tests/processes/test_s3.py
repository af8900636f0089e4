"""Log and transactions end to end on S3: threads and processes append with conditional puts, readers travel in time.

Spark itself cannot take part here: stock PySpark has no file system for `s3a:`. With the hadoop-aws jar of its Hadoop
version (`spark.jars.packages=org.apache.hadoop:hadoop-aws:3.4.x`) and `spark.hadoop.fs.s3a.*` settings it can; anabranch
reads the same settings for the log, which goes through no jar.
"""

from __future__ import annotations

import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq

from interop.readers import read_by_delta_rs
from processes.appender import ROWS, STORAGE, create, table_in
from processes.reading import append_from_threads, appends_in, run
from storage.services import BUCKET, SECRET_KEY, SETTINGS, s3_store
from transactions.log_linter import lint


def read_over_s3(endpoint: str, name: str, version: int | None = None) -> pa.Table:
    options = {
        "aws_access_key_id": SETTINGS["fs.s3a.access.key"],
        "aws_secret_access_key": SECRET_KEY,
        "aws_region": "us-east-1",
        "aws_endpoint_url": endpoint,
        "aws_allow_http": "true",
    }
    return read_by_delta_rs(f"s3://{BUCKET}/{name}", version, options)


def test_threads_append(endpoint: str) -> None:
    expected = append_from_threads(lambda: s3_store(endpoint, "threads"))
    assert appends_in(read_over_s3(endpoint, "threads")) == expected


def test_processes_append_and_readers_travel_in_time(endpoint: str) -> None:
    create(table_in(s3_store(endpoint, "processes")))
    settings = json.dumps({**SETTINGS, "fs.s3a.endpoint": endpoint})
    landed = run("append", f"s3a://{BUCKET}/processes", "4", "10", **{STORAGE: settings})

    store = s3_store(endpoint, "processes")
    assert sorted(landed.values()) == list(range(1, 41))
    assert lint(store) == []
    snapshots = table_in(store).snapshots
    for version in (40, 17, 3):
        expected = Counter(append for append, own in landed.items() if own <= version)
        assert appends_in(read_over_s3(endpoint, "processes", version)) == expected
        files = snapshots.at_version(version).files.to_actions()
        assert len(files) == version
        rows = pa.concat_tables(pq.read_table(pa.BufferReader(store.read(file.path))) for file in files)
        assert rows.num_rows == version * ROWS
        assert appends_in(rows) == expected
