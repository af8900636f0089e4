"""Hadoop's configuration as tasks get it: what somebody set, and the defaults of file systems and Parquet."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from anabranch.spark.gateway.jvm_classes import JvmValues

pytestmark = pytest.mark.spark

UNUSED = ["yarn.nodemanager.vmem-pmem-ratio", "mapreduce.map.sort.spill.percent"]


@pytest.fixture
def everything(delta: SparkSession) -> Any:
    """With the defaults of YARN and MapReduce, as in each of Spark's sessions."""
    configuration = delta._jvm.org.apache.hadoop.mapred.JobConf(
        delta._jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
    )
    assert all(configuration.get(name) is not None for name in UNUSED)
    configuration.set("yarn.resourcemanager.hostname", "rm.example.org")
    configuration.set("fs.s3a.endpoint", "http://${yarn.resourcemanager.hostname}:9000")
    return configuration


def for_tasks(delta: SparkSession, everything: Any) -> Any:
    return JvmValues(delta).anabranch.TaskConfiguration(everything)


def check_values(configuration: Any, everything: Any) -> None:
    assert [configuration.get(name) for name in UNUSED] == [None, None]
    assert configuration.get("fs.s3a.endpoint") == "http://rm.example.org:9000"
    for name in ("io.file.buffer.size", "hadoop.tmp.dir", "fs.s3a.impl", "fs.s3a.buffer.dir"):
        assert configuration.get(name) == everything.get(name)


def test_what_tasks_get(delta: SparkSession, everything: Any) -> None:
    """Whoever loads the class of a file system may have all configurations load their defaults anew, as S3A does."""
    configuration = for_tasks(delta, everything)
    check_values(configuration, everything)
    copied = delta._jvm.org.apache.hadoop.mapred.JobConf(configuration)
    delta._jvm.org.apache.hadoop.conf.Configuration.reloadExistingConfigurations()
    check_values(configuration, everything)
    check_values(copied, everything)


def test_classes_of_users_are_found(delta: SparkSession, everything: Any) -> None:
    loader = delta._jvm.java.net.URLClassLoader(delta._sc._gateway.new_array(delta._jvm.java.net.URL, 0))
    everything.setClassLoader(loader)
    assert for_tasks(delta, everything).getClassLoader().equals(loader)


def test_what_executors_get(delta: SparkSession, everything: Any) -> None:
    """They have none of our classes."""
    jvm = delta._jvm
    sent = jvm.org.apache.spark.util.SerializableConfiguration(for_tasks(delta, everything))
    written = jvm.java.io.ByteArrayOutputStream()
    jvm.java.io.ObjectOutputStream(written).writeObject(sent)
    read = jvm.java.io.ObjectInputStream(jvm.java.io.ByteArrayInputStream(written.toByteArray())).readObject().value()
    assert read.getClass().getName() == "org.apache.hadoop.conf.Configuration"
    check_values(read, everything)
