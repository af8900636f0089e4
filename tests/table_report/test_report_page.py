"""The page is one file, asks no network, keeps names as text, and can be read without seeing it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from anabranch.table_report.report_file import TableReport
from anabranch.table_report.report_page import page_of
from cli.tables_in_folders import TableInFolder
from table_report.conftest import Report
from table_report.page_reading import Page

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;{{ 7 * 7 }}"
RESOURCES = {"src", "href", "srcset", "action", "formaction", "data", "poster", "background", "xlink:href"}


def hostile_table(path: Path) -> Path:
    """A table in which columns, partition values, properties, comments and users have markup in their names."""
    schema = pa.schema(
        [pa.field(HOSTILE, pa.int64()), pa.field(f"part{HOSTILE}", pa.string()), pa.field("d", pa.date32())]
    )
    rows = pa.table([[1, 2], [HOSTILE, "b"], [None, None]], schema=schema)
    info = deltalake.CommitProperties(custom_metadata={"userName": HOSTILE, "userMetadata": HOSTILE})
    deltalake.write_deltalake(
        path, rows, partition_by=[f"part{HOSTILE}"], name=HOSTILE, description=HOSTILE, commit_properties=info
    )
    deltalake.DeltaTable(path).delete("d = '2026-01-01'")
    actions = [
        {
            "commitInfo": {
                "operation": HOSTILE,
                "operationParameters": {HOSTILE: HOSTILE},
                "userName": HOSTILE,
                "engineInfo": HOSTILE,
                "userMetadata": HOSTILE,
                "tags": {HOSTILE: HOSTILE, "anabranch.landedAfter": HOSTILE},
            }
        },
        {"txn": {"appId": HOSTILE, "version": 1}},
    ]
    version = deltalake.DeltaTable(path).version() + 1
    log_file = path / "_delta_log" / f"{version:020d}.json"
    log_file.write_text("\n".join(map(json.dumps, actions)))
    return path


@pytest.fixture(params=["hostile", "vectors", "empty", "partitioned"])
def page(request: pytest.FixtureRequest, tmp_path: Path, report: Report) -> str:
    """The pages of different tables."""
    path = tmp_path / "t"
    if request.param == "hostile":
        hostile_table(path)
    elif request.param == "vectors":
        TableInFolder.with_hidden_rows(path)
    elif request.param == "empty":
        TableInFolder.empty(path)
    else:
        deltalake.write_deltalake(
            path, pa.table({"id": range(40), "p": [i % 4 for i in range(40)]}), partition_by=["p"]
        )
    return page_of(report(path))


def test_the_page_needs_nothing_else(page: str) -> None:
    parsed = Page(page)
    assert parsed.all("script", "iframe", "object", "embed", "img", "base", "form") == []
    addresses = {
        value
        for element in parsed.elements
        for name, value in element.attributes.items()
        if name in RESOURCES and value is not None
    }
    assert {address for address in addresses if not address.startswith(("#", "data:"))} == set()
    assert {name for element in parsed.elements for name in element.attributes if name.startswith("on")} == set()
    style = parsed.one("style").text
    assert not re.search(r"url\(|@import", style)
    without_namespaces = re.sub(r' xmlns(:xlink)?="[^"]*"', "", page)
    assert re.findall(r"https?:", without_namespaces) == []
    assert not any("url(" in (element.attributes.get("style") or "") for element in parsed.elements)
    policy = next(e for e in parsed.all("meta") if e.attributes.get("http-equiv") == "Content-Security-Policy")
    assert (policy.attributes["content"] or "").startswith("default-src 'none'")


def test_the_page_can_be_read_without_seeing_it(page: str) -> None:
    parsed = Page(page)
    assert parsed.one("html").attributes["lang"] == "en"
    assert len(parsed.all("h1")) == 1
    assert parsed.one("title").text.strip()
    tables = len(parsed.all("table"))
    assert tables == len([caption for caption in parsed.all("caption") if caption.text.strip()])
    assert all(header.attributes.get("scope") in {"col", "row"} for header in parsed.all("th"))
    pictures = [element for element in parsed.elements if element.attributes.get("role") == "img"]
    assert len(pictures) == len(parsed.all("svg")) > 0
    assert all(picture.attributes["aria-label"] for picture in pictures)
    assert all(svg.attributes["aria-hidden"] == "true" for svg in parsed.all("svg"))
    assert all(
        region.attributes["aria-label"] for region in parsed.elements if region.attributes.get("role") == "region"
    )
    targets = {element.attributes.get("id") for element in parsed.elements}
    assert {(link.attributes["href"] or "")[1:] for link in parsed.all("a")} <= targets
    ids = [element.attributes["id"] for element in parsed.elements if "id" in element.attributes]
    assert len(ids) == len(set(ids))


def test_headings_follow_each_other(page: str) -> None:
    levels = [int(element.tag[1]) for element in Page(page).all("h1", "h2", "h3")]
    assert levels[0] == 1
    assert all(later - earlier <= 1 for earlier, later in zip(levels, levels[1:], strict=False))


def test_there_are_colors_for_dark_and_for_print(page: str) -> None:
    style = Page(page).one("style").text
    assert "prefers-color-scheme: dark" in style
    assert "@media print" in style
    used = set(re.findall(r"var\((--[\w-]+)\)", page))
    assert used <= set(re.findall(r"(--[\w-]+):", style))


def test_names_stay_text(tmp_path: Path, report: Report) -> None:
    data = report(hostile_table(tmp_path / "t"))
    parsed = Page(page_of(data))
    assert parsed.one("h1").text == HOSTILE[:119] + ("…" if len(HOSTILE) > 119 else "")
    headers = [header.text for header in parsed.all("th")]
    assert any(HOSTILE in header for header in headers)
    cells = "\n".join(cell.text for cell in parsed.all("td"))
    assert HOSTILE[:40] in cells
    assert data.history.commits[0].operation == HOSTILE
    labels = "\n".join(text.text for text in parsed.all("text"))
    assert "</script><script>" in labels


def test_names_that_reorder_text_are_escaped(tmp_path: Path, report: Report) -> None:
    """Characters that turn the direction of writing could show another name than the log has."""
    deltalake.write_deltalake(tmp_path / "t", pa.table({"safe\u202egpj.exe": [1]}))
    page = page_of(report(tmp_path / "t"))
    assert "\u202e" not in page
    assert "\\u202e" in page


def test_a_notebook_shows_the_page_in_a_closed_frame(table: TableInFolder, report: Report) -> None:
    shown = TableReport(report(table.path))._repr_html_()
    frame = Page(shown).one("iframe")
    assert frame.attributes["sandbox"] is None
    assert Page(frame.attributes["srcdoc"] or "").one("h1").text == "table"


def test_a_report_is_written_over_an_earlier_one(table: TableInFolder, tmp_path: Path, report: Report) -> None:
    file = tmp_path / "page.html"
    file.write_text("earlier " * 100_000)
    made = TableReport(report(table.path))
    assert made.save(file) == file
    assert file.read_text(encoding="utf-8") == made.html()
    assert repr(made) == f"<report on {table.path}, version 3>"


def test_rebased_commits_are_marked(table: TableInFolder, report: Report) -> None:
    late = table.table.begin(table.operation("WRITE"))
    table.append("c.parquet", range(20, 30))
    late.commit([table.file("d.parquet", range(30, 40))])
    data = report(table.path)
    assert data.history.commits[0].landed_after == (4,)
    page = page_of(data)
    assert "rebased over 1 commit of other writers" in page
    assert Page(page).one("h1").text == "table"
    assert '<g class="mark-symbol' in page
    assert 'fill="var(--series-2)"' in page
