"""The first ten minutes: what a user without Java, or with one that Spark does not run on, reads, and what a start prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from anabranch.errors.arguments import JavaMissingError
from anabranch.java_search import WAYS_OUT, java_problem
from anabranch.spark.jvm_start import quiet_start, starting_java
from new_processes import outside_this_session

ROOT = Path(__file__).parents[2]
SESSION = "import anabranch; anabranch.session()"


def java_folder(folder: Path, *, version: str, with_release: bool) -> Path:
    """A folder as JAVA_HOME names it, with a program that prints this version as a JVM does."""
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    java.chmod(0o755)
    if with_release:
        (folder / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{version}"\n')
        java.write_text("#!/bin/sh\nexit 9\n")  # the file says it all
    return folder


@pytest.mark.parametrize("with_release", [True, False])
@pytest.mark.parametrize(
    ("java", "pyspark_version", "clause"),
    [
        ("1.8.0_392", "4.3.0", "is version 8"),
        ("11.0.2", "4.3.0", "is version 11"),
        ("17.0.15", "4.0.5", None),
        ("21", "4.1.4", None),
        ("25", "4.1.4", "is version 25, too new for PySpark 4.1, which runs on Java 17 and 21"),
        ("25", "4.3.0", None),
    ],
)
def test_versions_of_java(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    java: str,
    pyspark_version: str,
    clause: str | None,
    with_release: bool,
) -> None:
    home = java_folder(tmp_path / "java", version=java, with_release=with_release)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java_problem(pyspark_version) == (clause and f"{home}/bin/java {clause}")


@pytest.mark.parametrize(
    ("version", "way_out"), [("21.0.2", " (unset JAVA_HOME to use {java}, version 21)"), ("11.0.2", ""), (None, "")]
)
def test_a_java_home_without_java_is_named_though_the_path_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None, way_out: str
) -> None:
    """Spark starts what JAVA_HOME names, and nothing else."""
    if version:
        java_folder(tmp_path, version=version, with_release=True)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    way_out = way_out.format(java=tmp_path / "bin" / "java")
    assert java_problem() == f"JAVA_HOME is /nowhere, which has no bin/java{way_out}"
    with pytest.raises(JavaMissingError, match="set JAVA_HOME to its folder"):
        _start_in_a_new_process(monkeypatch)


def _start_in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    with starting_java():
        pytest.fail("the block was entered")


def test_nothing_is_checked_where_a_jvm_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with starting_java():
        assert quiet_start({}) == {}


def test_a_java_that_fails_the_check_is_never_started(tmp_path: Path) -> None:
    home = java_folder(tmp_path / "java", version="11.0.2", with_release=True)
    ended = _python(SESSION, JAVA_HOME=str(home))
    assert ended.returncode == 1
    assert f"Spark needs Java 17 or newer, and {home}/bin/java is version 11.{WAYS_OUT}" in ended.stderr
    assert "JAVA_GATEWAY_EXITED" not in ended.stderr


def test_the_script_of_make_says_the_same(tmp_path: Path) -> None:
    """`scripts/ensure_java.sh` where it may install nothing: the path has Python alone."""
    (tmp_path / "python3").symlink_to(sys.executable)
    script = subprocess.run(
        ["/bin/sh", str(ROOT / "scripts" / "ensure_java.sh")],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (script.returncode, script.stdout) == (
        1,
        f"Spark needs Java 17 or newer, and no java was found.{WAYS_OUT}\n",
    )


@pytest.mark.parametrize(
    ("settings", "environment"),
    [
        ({"spark.driver.extraJavaOptions": "-Xss4m"}, {}),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--driver-java-options -Xss4m pyspark-shell"}),
        ({}, {"SPARK_SUBMIT_OPTS": "-Dlog4j2.configurationFile=file:/mine.xml"}),
        ({}, {"SPARK_CONF_DIR": str(ROOT)}),
    ],
)
def test_a_log_that_the_user_configures_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], environment: dict[str, str]
) -> None:
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS", "LOG4J_CONFIGURATION_FILE", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANABRANCH_CACHE", "off")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert quiet_start(settings) == {}
    for name in environment:
        monkeypatch.delenv(name)
    assert quiet_start({}) != {}


@pytest.mark.spark
@pytest.mark.long
def test_a_start_prints_only_what_java_itself_writes(tmp_path: Path) -> None:
    """Warnings after the start are logged, the interface is on, and the user's level is obeyed."""
    program = """
import anabranch
spark = anabranch.session(cores=1)
log = spark.sparkContext._jvm.org.apache.log4j.Logger.getLogger("a.test")
log.info("unseen")
log.warn("a warning")
assert spark.sparkContext.uiWebUrl
spark.sparkContext.setLogLevel("INFO")
log.info("some information")
spark.sparkContext.setLogLevel("ERROR")
spark.stop()
"""
    ended = _python(program, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    lines = [line for line in ended.stderr.splitlines() if "Service 'SparkUI' could not bind" not in line]
    assert lines[0] == "WARNING: Using incubator modules: jdk.incubator.vector"
    assert [line.split(" ", 2)[2] for line in lines[1:] if " test:" in line] == [
        "WARN test: a warning",
        "INFO test: some information",
    ]
    assert [line for line in lines[1:] if " INFO " not in line and " test:" not in line] == []


@pytest.mark.long
def test_an_older_pyspark_itself(tmp_path: Path) -> None:
    """PySpark 3.5, installed into an environment of its own."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True, timeout=120)
    python = tmp_path / "venv" / "bin" / "python"
    install = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pyspark==3.5.*"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if install.returncode:
        pytest.skip(f"not run: PySpark 3.5 cannot be installed here: {install.stderr.strip().splitlines()[-1]}")
    ended = _python(SESSION, executable=str(python))
    assert ended.returncode == 1
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("anabranch.pyspark_release.PySparkReleaseError: PySpark 3.5.")
    assert last.endswith(
        ' is installed, and anabranch runs on PySpark 4.0 to 4.3: run pip install "pyspark>=4.0,<4.4".'
    )

    home = subprocess.run(
        [python, "-c", "import pyspark, os; print(os.path.dirname(pyspark.__file__))"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.strip()
    elsewhere = _python(SESSION, SPARK_HOME=home)
    assert f"SPARK_HOME is {home}, which has Spark 3.5." in elsewhere.stderr
    assert f"and PySpark {pyspark.__version__} is installed: unset SPARK_HOME" in elsewhere.stderr


def _python(
    program: str, *, executable: str = sys.executable, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [executable, "-c", program],
        env={**outside_this_session(), "PYTHONPATH": str(ROOT / "src"), **environment},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
