"""Files through the session's Hadoop, on the local disk; `make test-services` has an HDFS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anabranch.errors.environment import ConditionalPutUnsupportedError, UnsupportedStorageError
from anabranch.storage.hadoop.hadoop_listing import HadoopFile, decode_statuses
from anabranch.storage.hadoop.hadoop_store import HadoopStore
from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.log_store import PutOutcome
from anabranch.storage.opening.store_opening import open_store
from storage.services import hadoop_session, hadoop_store

spark_test = pytest.mark.spark
NAME = "_delta_log/0.json"


@spark_test
def test_a_file_system_that_may_overwrite_is_refused(spark: Any, tmp_path: Path) -> None:
    store = HadoopStore(f"file://{tmp_path}/t", hadoop_session(spark))
    with pytest.raises(ConditionalPutUnsupportedError, match=r"'file:'.*atomicRenameSchemes"):
        store.put_if_absent(NAME, b"x")
    assert not (tmp_path / "t").exists()
    store.put(NAME, b"x")
    assert store.read(NAME) == b"x"


@spark_test
def test_a_view_counts_as_what_it_shows(spark: Any, tmp_path: Path) -> None:
    session = hadoop_session(spark)
    session.configuration.set("fs.viewfs.mounttable.anabranch.link./data", f"file://{tmp_path}")
    url = "viewfs://anabranch/data/t"
    refused = open_store(url, hadoop=session)
    assert isinstance(refused, HadoopStore)
    with pytest.raises(ConditionalPutUnsupportedError, match="'file:'"):
        refused.put_if_absent(NAME, b"x")
    store = open_store(url, {"anabranch.hadoop.atomicRenameSchemes": "file, other"}, hadoop=session)
    assert store.put_if_absent(NAME, b"x") is PutOutcome.CREATED
    assert store.put_if_absent(NAME, b"y") is PutOutcome.EXISTS
    assert [file.path for file in store.list_from("_delta_log")] == [NAME]
    assert [file.path for file in store.list_tree()] == [NAME]
    assert (tmp_path / "t" / NAME).read_bytes() == b"x"


@spark_test
def test_no_temporary_files_stay(spark: Any, tmp_path: Path) -> None:
    store = hadoop_store(spark, tmp_path / "t")
    for _ in range(3):
        store.put_if_absent(NAME, b"x")
        store.put("_delta_log/_last_checkpoint", b"x")
    names = {path.name for path in (tmp_path / "t" / "_delta_log").iterdir() if not path.name.endswith(".crc")}
    assert names == {"0.json", "_last_checkpoint"}


@spark_test
def test_schemes_that_hadoop_lacks(spark: Any) -> None:
    for url in ("nosuch://host/t", "hdfs:/no/host"):
        with pytest.raises(UnsupportedStorageError, match="Hadoop cannot open it"):
            open_store(url, hadoop=hadoop_session(spark))


@spark_test
def test_settings_of_the_session_reach_object_stores(spark: Any, s3_endpoint: str) -> None:
    session = hadoop_session(spark)
    for name, value in {
        "fs.s3a.bucket.tables.access.key": "k",
        "fs.s3a.bucket.tables.secret.key": "s",
        "fs.s3a.bucket.tables.endpoint": s3_endpoint,
    }.items():
        session.configuration.set(name, value)
    store = open_store("s3a://tables/by-session", hadoop=session)
    assert store.put_if_absent(NAME, b"x") is PutOutcome.CREATED
    assert store.read(NAME) == b"x"


@spark_test
def test_spark_reads_what_a_local_store_replaced(spark: Any, tmp_path: Path) -> None:
    """Hadoop keeps a checksum beside each file that it writes; ours must not be judged by it."""
    through_hadoop, ours = hadoop_store(spark, tmp_path), LocalStore(str(tmp_path))
    through_hadoop.put("f", b"written by Hadoop")
    assert (tmp_path / ".f.crc").exists()
    ours.put("f", b"written by us, longer than before")
    assert through_hadoop.read("f") == b"written by us, longer than before"
    ours.delete("f")
    through_hadoop.put("f", b"again")
    ours.delete("f")
    ours.put_if_absent("f", b"ours")
    assert through_hadoop.read("f") == b"ours"


@spark_test
def test_a_wide_tree_takes_few_calls(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(60):
        directory = tmp_path / f"part={number}"
        directory.mkdir()
        (directory / "f").write_bytes(b"12")
    store = hadoop_store(spark, tmp_path)
    client = spark.sparkContext._gateway._gateway_client
    send_command, commands = client.send_command, []

    def counted(command: str, *arguments: Any, **options: Any) -> Any:
        # The command "m" releases a Java object after Python has dropped its proxy, from any thread.
        if not command.startswith("m\n"):
            commands.append(command)
        return send_command(command, *arguments, **options)

    monkeypatch.setattr(client, "send_command", counted)
    files = list(store.list_tree())
    assert {file.path for file in files} == {f"part={number}/f" for number in range(60)}
    assert {file.size_bytes for file in files} == {2}
    assert 10 < len(commands) < 150, "three levels, however many files"


def test_decoding_statuses() -> None:
    directory = bytes.fromhex("0801 1206") + b"hdfs:a" + bytes.fromhex("1800 3881808080 10")
    file = bytes.fromhex("0802 1206") + b"hdfs:b" + bytes.fromhex("18ac02 2203 08a403 2a01 72 3807 9d01 00000000")
    link = bytes.fromhex("0803 1206") + b"hdfs:c"
    data = (3).to_bytes(4, "big") + b"".join(len(part).to_bytes(4, "big") + part for part in (directory, file, link))
    assert list(decode_statuses(data)) == [
        HadoopFile(path="hdfs:a", is_directory=True, size_bytes=0, modified_ms=1 + (1 << 32)),
        HadoopFile(path="hdfs:b", is_directory=False, size_bytes=300, modified_ms=7),
    ]
    with pytest.raises(ValueError, match="truncated"):
        list(decode_statuses(data[:-1]))
