"""The places of PySpark that are wrapped are what the wrappers take them for. Where one of these fails, read `auto/`."""

from __future__ import annotations

import inspect
import re

import pyspark.core.context
import pyspark.sql.session
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from anabranch.auto.import_hook import WATCHED


def parameters(function: object) -> list[str]:
    return list(inspect.signature(inspect.unwrap(function)).parameters)  # type: ignore[arg-type]


def test_every_start_of_a_jvm_calls_ensure_initialized() -> None:
    """`launch_gateway` reads the conf and PYSPARK_SUBMIT_ARGS, and only this method calls it."""
    assert "pyspark.core.context" in WATCHED
    method = vars(SparkContext)["_ensure_initialized"]
    assert isinstance(method, classmethod)
    assert parameters(method.__func__) == ["cls", "instance", "gateway", "conf"]
    assert inspect.getsource(pyspark.core.context).count("launch_gateway(") == 1
    assert "launch_gateway(conf)" in inspect.getsource(inspect.unwrap(method.__func__))
    assert "_ensure_initialized(self, gateway=gateway, conf=conf)" in inspect.getsource(SparkContext.__init__)


def test_the_conf_of_a_context_is_read_after_that_call() -> None:
    source = inspect.getsource(SparkContext.__init__)
    assert source.index("_ensure_initialized(") < source.index("_do_init(")
    source = inspect.getsource(SparkConf.__init__)
    assert "self._conf = {}" in source
    assert "jvm.SparkConf(loadDefaults)" in source


def test_a_classic_session_is_made_by_its_init_alone() -> None:
    assert parameters(SparkSession.__init__) == ["self", "sparkContext", "jsparkSession", "options"]
    assert "__new__" not in inspect.getsource(pyspark.sql.session)


def test_builders_hold_their_options_in_a_dict_of_their_own() -> None:
    import pyspark.sql.connect.session as connect

    for cls in (SparkSession, connect.SparkSession):
        builder = cls.Builder()
        assert builder._options == {}
        assert builder.config("a", "b") is builder
        assert builder._options == {"a": "b"}
        assert cls.Builder()._options == {}
        assert parameters(cls.Builder.getOrCreate) == ["self"]
        assert parameters(cls.Builder.create) == ["self"]


def test_a_connect_session_is_made_by_its_init_or_by_methods_that_copy() -> None:
    """Those that go around `__init__` are wrapped each by itself."""
    import pyspark.sql.connect.session as connect

    from anabranch.auto.enabled_sessions import _COPYING_METHODS

    source = inspect.getsource(connect)
    around = {
        name
        for name in _COPYING_METHODS
        if hasattr(connect.SparkSession, name)
        and "object.__new__(SparkSession)" in inspect.getsource(inspect.unwrap(getattr(connect.SparkSession, name)))
    }
    assert len(re.findall(r"__new__\(", source)) == len(around)
