"""The Python examples of README and docs run, each page from top to bottom."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
EXAMPLE = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
"""An example, and the output where the page shows it."""
PAGES = [
    page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if EXAMPLE.search(page.read_text())
]
LINK = re.compile(r"(?:\]\(|<img src=\")([^)#:\"]+)(?:#[^)\"]*)?[)\"]")


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page: Path, delta: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page says works, works in the order in which it says it."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"spark": delta}
    for example in EXAMPLE.finditer(page.read_text()):
        line = page.read_text()[: example.start()].count("\n") + 2
        source = "\n" * (line - 1) + example[1]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, str(page), "exec"), names)  # the line numbers are those of the page
        if example[2] is not None:
            assert printed.getvalue().strip() == example[2].strip()


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))])
def test_links_lead_somewhere(page: Path) -> None:
    """Links between pages name files that are there."""
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []
