"""Releases of PySpark: which are supported, and what is said of others."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from anabranch.pyspark_release import SUPPORTED, PySparkReleaseError, check_release

ROOT = Path(__file__).parents[1]
RUNS_ON = 'anabranch runs on PySpark 4.0 to 4.3: run pip install "pyspark>=4.0,<4.4".'
OLD = f"PySpark 3.5.9 is installed, and {RUNS_ON}"


@pytest.mark.parametrize("version", ["3.5.9", "3.2.0", "2.4.8", "5.0.0", "5.1.0.dev1"])
def test_other_releases_are_refused_with_the_way_out(version: str) -> None:
    """Covers bug B93: it was `No module named 'pyspark.sql.classic'`."""
    with pytest.raises(PySparkReleaseError) as raised:
        check_release(version)
    assert str(raised.value) == OLD.replace("3.5.9", version)


@pytest.mark.parametrize("version", ["4.0.0", "4.0.1.dev3", "4.3.0", "unknown"])
def test_others_are_let_pass(version: str) -> None:
    check_release(version)


def test_of_a_later_minor_release_there_is_a_warning() -> None:
    with pytest.warns(UserWarning, match=re.escape(f"PySpark 4.4.0.dev0 is installed, and {RUNS_ON}")):
        check_release("4.4.0.dev0")


@pytest.mark.parametrize("leftover", [True, False])
def test_without_pyspark(tmp_path: Path, leftover: bool) -> None:
    """Nothing is installed, or there is only the folder that an interrupted `pip uninstall` has left."""
    if leftover:
        (tmp_path / "pyspark" / "python").mkdir(parents=True)
    program = f"import sys; sys.path[:] = [{str(ROOT / 'src')!r}, {str(tmp_path)!r}, *[p for p in sys.path if 'site-packages' not in p]]; import anabranch; anabranch.session"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    last = ended.stderr.strip().splitlines()[-1]
    assert last == f"anabranch.pyspark_release.PySparkReleaseError: PySpark is not installed, and {RUNS_ON}"


def test_the_releases_are_those_of_the_package() -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    assert f"pyspark{SUPPORTED}" in dependencies


@pytest.mark.parametrize(
    "imports",
    [
        "anabranch; anabranch.session",
        "anabranch; anabranch.serve",
        "anabranch.tables",
        "anabranch.exceptions",
        "anabranch.cli.main",
    ],
)
def test_it_is_said_before_any_import_fails(imports: str, tmp_path: Path) -> None:
    """Covers bug B93, with a PySpark that reports an old version and lacks what old ones lack."""
    package = tmp_path / "pyspark"
    (package / "sql").mkdir(parents=True)
    (package / "__init__.py").write_text("__version__ = '3.5.9'\nSparkContext = None\n")
    anything = "def __getattr__(name):\n    if name not in ('classic', 'VariantType'): return Exception\n    raise AttributeError(name)\n"
    for module in ("errors.py", "sql/__init__.py", "sql/types.py"):
        (package / module).write_text(anything)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {imports}"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == 1
    assert (
        process.stderr.strip().splitlines()[-1].removeprefix("anabranch.pyspark_release.PySparkReleaseError: ") == OLD
    )
