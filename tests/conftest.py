"""Fixtures of all tests."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
import uuid
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from pyspark.sql import SparkSession

import anabranch
from new_processes import OF_SPARK
from session_kinds import CONNECT
from turns import turn

# How long an example takes says how busy the machine is, and nothing of what it shows.
hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("untimed")

for variable, options in OF_SPARK.items():
    os.environ.setdefault(variable, options)

CORPUS = Path(__file__).parents[2] / "shared" / "corpus"


class FailuresAtOnce:
    """Reports each failure when it happens, so that a run which is cut off has reported its failures."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self.reporter = reporter

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.reporter.line("")
            self.reporter.section(f"failed: {report.nodeid} ({report.when})", "-")
            self.reporter.line(report.longreprtext)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None:
        config.pluginmanager.register(FailuresAtOnce(reporter))


def pytest_addoption(parser: pytest.Parser) -> None:
    words = "of the files with long tests one in N, others in each turn (turns.py)"
    parser.addoption("--long-one-in", type=int, default=1, metavar="N", help=words)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--long-one-in`, leave out the long tests of other turns, and order the others so that they end soonest.

    Files with long tests start first, those with few of them before all, then those with many tests.

    Else one process ends long after the other: the fewer long tests a file has, the longer they take. Programs, which the
    processes share by their own files, are the last of the long ones.
    """
    tests = Counter(item.path for item in items)
    long = {item.path for item in items if item.get_closest_marker("long")}

    def cost(item: pytest.Item) -> tuple[int, int]:
        if item.path in long:
            return int(item.nodeid.startswith(OF_PROGRAMS)), tests[item.path]
        return 2, -tests[item.path]

    items.sort(key=cost)
    one_in = config.getoption("long_one_in")
    long_groups = sorted({group(item.nodeid) for item in items if item.get_closest_marker("long")})
    of_other_turns = set(long_groups) - set(long_groups[turn() % one_in :: one_in])

    def is_left_out(item: pytest.Item) -> bool:
        return item.get_closest_marker("long") is not None and group(item.nodeid) in of_other_turns

    config.hook.pytest_deselected(items=[item for item in items if is_left_out(item)])
    items[:] = [item for item in items if not is_left_out(item)]


OF_ONE_PORT = (
    "tests/auto/test_programs.py",
    "tests/serve/test_auto_cdc.py",
    "tests/serve/test_pipelines.py",
    "tests/serve/test_server_in_process.py",
)
"""Files with tests that hold `connect_port`: in one process, for in two they would wait for one another."""

OF_PROGRAMS = "tests/differential/test_beside_recorded_answers.py"
"""A test of it is named by the file of programs, too: `…[rows: DELETE]`."""


def group(nodeid: str) -> str:
    """What one process runs: a file, with the files of one port as one; of the programs, a file of them."""
    file, _, test = nodeid.partition("::")
    if file == OF_PROGRAMS:
        return test.partition(":")[0]
    return "connect_port" if file in OF_ONE_PORT else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile`, by `group` instead of by file."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByGroup(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    return ByGroup(config, log)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local Spark session for the whole run."""
    if CONNECT is not None:
        pytest.skip("needs a classic session, which cannot share a process with a client")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        SparkSession.builder.master("local[2]")
        .appName("anabranch-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def native(spark: SparkSession) -> SparkSession:
    """The shared session, enabled."""
    return anabranch.enable(spark)


@pytest.fixture(scope="session")
def delta(request: pytest.FixtureRequest) -> SparkSession:
    """A session that knows Delta: the shared one, or in a run over Spark Connect a client's."""
    if CONNECT is not None:
        return anabranch.enable(request.getfixturevalue("connect_session"))
    session: SparkSession = request.getfixturevalue("native")
    return session


@pytest.fixture
def active(delta: SparkSession) -> None:
    """The session is the active one of its thread, whichever test ran before: Spark reads settings of the active session,
    also where another one's catalogs are looked for (`toTable`)."""
    if CONNECT is None:
        delta._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(delta._jsparkSession)


@pytest.fixture
def connect_port(request: pytest.FixtureRequest) -> Iterator[None]:
    """The port of a local Spark Connect server, which is one for the whole machine, while a test starts programs with one."""
    assert request.node.nodeid.split("::")[0] in OF_ONE_PORT, "a file whose tests start such servers is named there"
    with Path(tempfile.gettempdir(), "anabranch-tests-connect.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def connect_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark Connect session. It cannot share a process with a classic one."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if CONNECT == "serve":
        from serve.served import served

        with served(tmp_path_factory.mktemp("served") / "warehouse") as server:
            session = SparkSession.builder.remote(server.connect_url).getOrCreate()
            yield session
            session.stop()
        return
    builder = SparkSession.builder.remote("local[2]")
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    with warnings.catch_warnings():
        # The server starts with them all; the client then sets them again, and is refused those of Spark itself.
        warnings.filterwarnings("ignore", "Failed to set spark", UserWarning)
        session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where a table may go; there is none yet."""
    return str(tmp_path / "a table")


@pytest.fixture
def name(delta: SparkSession) -> Iterator[str]:
    """The name of a table that is not there yet."""
    made = f"t_{uuid.uuid4().hex[:8]}"
    yield made
    delta.sql(f"DROP TABLE IF EXISTS {made}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests report by `record_property("told", …)`: how much was tried, from which seeds."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name == "told":
                terminalreporter.write_line(str(value))
