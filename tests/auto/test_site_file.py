"""`anabranch auto`: one file, written and removed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anabranch.auto import site_file
from anabranch.auto.site_file import SiteFile
from anabranch.cli.main import app
from anabranch.errors.arguments import ForeignSiteFileError, SitePackagesNotWritableError

Run = Callable[..., Any]

WRAPPED = "import pyspark.sql; print(hasattr(pyspark.sql.SparkSession.__init__, '__wrapped__'))"


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_on_writes_one_file_and_off_removes_it(tmp_path: Path) -> None:
    (tmp_path / "other.pth").write_text("x")
    before = files_of(tmp_path)
    file = SiteFile(folder=tmp_path)
    assert not file.remove()
    file.write()
    file.write()
    assert files_of(tmp_path).keys() == {"other.pth", "anabranch_auto.pth"}
    assert file.is_there
    assert file.path.stat().st_mode & 0o777 == 0o644
    assert file.remove()
    assert files_of(tmp_path) == before


def test_a_file_of_an_earlier_anabranch_is_replaced(tmp_path: Path) -> None:
    file = SiteFile(folder=tmp_path)
    file.path.write_text("import anabranch.auto.earlier\n")
    file.write()
    assert file.path.read_text() == site_file.CONTENT


def test_a_file_of_another_program_stays(tmp_path: Path) -> None:
    file = SiteFile(folder=tmp_path)
    file.path.write_text("import something\n")
    for change in (file.write, file.remove):
        with pytest.raises(ForeignSiteFileError, match="was not made by anabranch"):
            change()
    assert files_of(tmp_path) == {"anabranch_auto.pth": b"import something\n"}


@pytest.mark.parametrize("folder", ["missing", "a file"])
def test_a_folder_that_cannot_be_changed(tmp_path: Path, folder: str) -> None:
    (tmp_path / "a file").write_text("")
    with pytest.raises(SitePackagesNotWritableError, match=r"cannot be changed \(.*\), so nothing was"):
        SiteFile(folder=tmp_path / folder).write()


@pytest.mark.long
def test_the_switch_of_an_environment(python: Run, environment: Any) -> None:
    """It is switched on, used, left out of one process, and off again; nothing else in the environment changes."""
    packages = environment.site_packages
    before = files_of(packages)

    def auto(position: str) -> Any:
        done = python("-m", "anabranch", "auto", position, "--json", executable=environment.python)
        assert done.stderr == ""
        return json.loads(done.stdout)

    def is_wrapped(**variables: str) -> bool:
        done = python("-c", WRAPPED, executable=environment.python, **variables)
        assert done.stderr == ""
        return done.stdout == "True\n"

    assert auto("status")["on"] is False
    assert not is_wrapped()

    switched = auto("on")
    assert switched["changed"] is switched["on"] is True
    assert switched["files"] == [str(packages / "anabranch_auto.pth")]
    assert files_of(packages).keys() - before.keys() == {"anabranch_auto.pth"}
    assert auto("on")["changed"] is False
    assert is_wrapped()
    assert not is_wrapped(ANABRANCH_AUTO="0")
    assert python("-c", "import delta.tables", executable=environment.python).stderr == ""

    assert auto("off") == {**auto("status"), "changed": True}
    assert files_of(packages) == before
    assert not is_wrapped()


def test_a_python_that_has_no_use_for_it_pays_next_to_nothing(python: Run, environment: Any) -> None:
    """No import of anabranch, of PySpark, or of anything else that Python itself would not have imported."""
    modules = "import sys; print(sorted(sys.modules)); print(len(sys.meta_path))"
    SiteFile(folder=environment.site_packages).write()
    on = python("-c", modules, executable=environment.python)
    off = python("-c", modules, executable=environment.python, ANABRANCH_AUTO="0")
    (modules_on, finders_on), (modules_off, finders_off) = on.stdout.splitlines(), off.stdout.splitlines()
    assert modules_on == modules_off
    assert int(finders_on) == int(finders_off) + 1


def test_a_python_without_anabranch_is_as_before(python: Run, environment: Any) -> None:
    """anabranch was uninstalled and the switch was left on."""
    packages = environment.site_packages
    SiteFile(folder=packages).write()
    (packages / "_packages_of_the_tests.pth").unlink()
    (packages / "pyspark.py").write_text("found = True")
    done = python("-c", "import pyspark; print(pyspark.found)\nimport delta", executable=environment.python)
    assert done.stdout == "True\n"
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'delta'"


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs `anabranch auto` as if the environment were an empty folder."""
    monkeypatch.setattr(site_file, "file_of_this_python", lambda: SiteFile(folder=tmp_path))
    monkeypatch.setattr(site_file, "files_of_this_python", list)
    return lambda *words: CliRunner().invoke(app, ["auto", *words])


def test_what_the_command_says(in_folder: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_folder().stdout.startswith("Off for ")
    said = in_folder("on").stdout
    assert said.startswith("On for ")
    assert f"By {tmp_path / 'anabranch_auto.pth'}" in said
    monkeypatch.setenv("ANABRANCH_AUTO", "0")
    # Its lines are as long as the terminal allows.
    assert "processes that are started from here are exempt" in " ".join(in_folder("status").stdout.split())
    assert in_folder("off").stdout.startswith("Off for ")
    assert in_folder("sideways").exit_code == 2


def test_the_command_refuses_in_words(in_folder: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "anabranch_auto.pth").write_text("import something\n")
    done = in_folder("off")
    assert done.exit_code == 1
    assert "was not made by anabranch" in done.stderr
