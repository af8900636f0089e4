"""The Python examples of README and docs run, each page from top to bottom, and print what the page says."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
EXAMPLE = re.compile(r"^```python\n(.*?)^```(?:\n+```output\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
"""An example, and the block with its output where one follows."""

ANY_TEXT = "…"
TUTORIAL = ROOT / "docs" / "tutorial.ipynb"
PAGES = [
    page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if EXAMPLE.search(page.read_text())
]
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(
    page: Path,
    delta: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What a page says works, works in the order in which it says it, and prints what the page shows."""
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.NOTSET, "anabranch.commit")  # an example sets it, and later tests have it as it was
    names: dict[str, object] = {"spark": delta}
    for example in EXAMPLE.finditer(page.read_text()):
        line = page.read_text()[: example.start()].count("\n") + 2
        source = "\n" * (line - 1) + example[1]
        capsys.readouterr()
        exec(compile(source, str(page), "exec"), names)  # the line numbers are those of the page
        if example[2] is not None:
            assert_printed(capsys.readouterr().out, example[2])


def assert_printed(printed: str, shown: str) -> None:
    """Compare line by line, without blanks at the ends of lines; `…` in a shown line is any text."""
    lines, expected = printed.strip().splitlines(), shown.strip().splitlines()
    assert len(lines) == len(expected), printed
    for line, pattern in zip(lines, expected, strict=True):
        parts = [re.escape(part) for part in pattern.rstrip().split(ANY_TEXT)]
        assert re.fullmatch(".*".join(parts), line.rstrip()), f"printed {line!r}, and the page shows {pattern!r}"


@pytest.mark.spark
@pytest.mark.long
def test_the_tutorial_prints_what_it_shows(
    delta: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make notebook` saves the outputs again where the code or what it prints has changed."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    cells = [cell for cell in json.loads(TUTORIAL.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 8
    for cell in cells:
        capsys.readouterr()
        exec(compile("".join(cell["source"]), str(TUTORIAL), "exec"), names)
        shown = "".join(text for output in cell["outputs"] if output.get("name") == "stdout" for text in output["text"])
        assert_printed(capsys.readouterr().out, shown)


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))])
def test_links_lead_somewhere(page: Path) -> None:
    """Links between pages name files that are there."""
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []
