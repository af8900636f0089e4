"""`anabranch run` does with a program what `python` does, but for the sessions."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anabranch.cli.main import app
from anabranch.cli.programs.program_run import Kind, Program, program_of

Run = Callable[..., Any]

REPORT = "import sys; print(__name__, sys.argv, sys.path[0], globals().get('__file__'), __package__)\n"


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (["a.py"], Program(kind=Kind.SCRIPT, name="a.py", arguments=())),
        (["a.py", "-m", "--help"], Program(kind=Kind.SCRIPT, name="a.py", arguments=("-m", "--help"))),
        (["-m", "dbt", "--help"], Program(kind=Kind.MODULE, name="dbt", arguments=("--help",))),
        (["-mdbt", "run"], Program(kind=Kind.MODULE, name="dbt", arguments=("run",))),
        (["-c", "pass", "-c", "x"], Program(kind=Kind.CODE, name="pass", arguments=("-c", "x"))),
        (["-", "x"], Program(kind=Kind.SCRIPT, name="-", arguments=("x",))),
        (["--", "a.py", "--"], Program(kind=Kind.SCRIPT, name="a.py", arguments=("--",))),
        ([], None),
        (["--help"], None),
        (["-m"], None),
        (["--"], None),
        (["-x", "a.py"], None),
    ],
)
def test_which_program_is_meant(words: list[str], program: Program | None) -> None:
    assert program_of(words) == program


@pytest.fixture
def here(tmp_path: Path, python: Run) -> Path:
    """Where the programs are run: a script, a package, a folder and an archive, all of which print how they run."""
    folder = tmp_path / "here"
    (folder / "below").mkdir()
    (folder / "below" / "script.py").write_text(REPORT)
    (folder / "link.py").symlink_to(folder / "below" / "script.py")
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("")
    (folder / "package" / "__main__.py").write_text(REPORT)
    (folder / "package" / "module.py").write_text(REPORT)
    (folder / "nothing").mkdir()
    (folder / "nothing" / "__init__.py").write_text("")
    (folder / "boom.py").write_text("def f():\n    raise ValueError('here')\nf()\n")
    (folder / "wrong.py").write_text("x = = 1\n")
    (folder / "latin.py").write_bytes("# coding: latin-1\nprint(ascii('é'))\n".encode("latin-1"))
    (folder / "exits.py").write_text("import atexit, sys\natexit.register(print, 'bye')\nsys.exit('so long')\n")
    with zipfile.ZipFile(folder / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", REPORT)
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["below/script.py", "a", "--help", "-m"],
        ["link.py"],
        ["-m", "package", "--version"],
        ["-m", "package.module"],
        ["-c", REPORT, "-x", "y"],
        ["package"],
        ["archive.zip", "x"],
        ["-", "x"],
        ["boom.py"],
        ["-m", "boom"],
        ["wrong.py"],
        ["latin.py"],
        ["exits.py"],
        ["-c", "import sys; sys.exit(7)"],
        ["-c", "raise KeyboardInterrupt"],
        ["-c", "import threading; threading.Thread(target=print, args=('late',)).start()"],
        ["-c", "import pickle\nclass A: pass\nprint(pickle.loads(pickle.dumps(A)) is A)"],
    ],
    ids=lambda words: " ".join(words)[:30],
)
def test_the_same_as_with_python(here: Path, python: Run, anabranch_run: Run, words: list[str]) -> None:
    """Output, exit code and traceback."""
    expected = python(*words, typed=REPORT)
    actual = anabranch_run(*words, typed=REPORT)
    assert actual.returncode == expected.returncode
    assert actual.stdout == expected.stdout
    # Python's own traceback of a module has frames of the machinery that looked for it.
    frames = [line for line in expected.stderr.splitlines() if "<frozen runpy>" not in line]
    assert actual.stderr.splitlines() == frames


def test_python_can_ignore_modules_beside_the_program(here: Path, python: Run, anabranch_run: Run) -> None:
    variables = {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(here)}
    words = ["below/script.py"]
    assert anabranch_run(*words, **variables).stdout == python(*words, **variables).stdout


@pytest.mark.parametrize(
    ("words", "exit_code", "said"),
    [
        (["missing.py"], 2, "can't open file"),
        (["nothing"], 1, "can't find '__main__' module in 'nothing'"),
        (["-m", "missing"], 1, "No module named missing"),
        (["-m", "missing.below"], 1, "No module named 'missing'"),
        (["-m", "nothing"], 1, "is a package without __main__"),
    ],
)
def test_there_is_no_such_program(
    here: Path, python: Run, anabranch_run: Run, words: list[str], exit_code: int, said: str
) -> None:
    done = anabranch_run(*words)
    assert done.returncode == exit_code == python(*words).returncode
    assert done.stderr.startswith("anabranch run: ")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_no_program_is_a_wrong_command() -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["run"]).exit_code == 2
    assert "is no script" in runner.invoke(app, ["run", "-x"]).stderr
    assert "Usage: anabranch run" in runner.invoke(app, ["run", "--help"], prog_name="anabranch").stdout


def test_delta_is_at_hand(anabranch_run: Run) -> None:
    done = anabranch_run("-c", "from delta.tables import DeltaTable; print(DeltaTable.__module__)")
    assert (done.stdout, done.stderr) == ("anabranch.tables.delta_table\n", "")


def test_the_shell_refuses_a_wrong_setting_at_once(python: Run) -> None:
    done = python("-m", "anabranch", "shell", "--conf", "spark.x")
    assert done.returncode == 1
    assert "--conf" in done.stderr
    assert "KEY=VALUE" in done.stderr
