"""The page of a report: one HTML file without scripts, which needs no network."""

from __future__ import annotations

import functools
from importlib import resources
from typing import TYPE_CHECKING, Any

from anabranch.errors.environment import ReportExtraMissingError
from anabranch.table_report import report_charts
from anabranch.table_report.report_values import ReportData
from anabranch.text_format import count, iso_time, plain, size

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

COMMITS_SHOWN = 20
"""Commits in the first table; the others are in one that opens."""


def page_of(data: ReportData) -> str:
    """The report as HTML. Raises `ReportExtraMissingError`."""
    return _template().render(report=data, charts=_charts(data), commits_shown=COMMITS_SHOWN, span=_span(data))


@functools.cache
def _template() -> Template:
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined  # noqa: PLC0415 - in an extra
    except ImportError:
        raise ReportExtraMissingError(library="Jinja2") from None
    folder = resources.files("anabranch.table_report") / "templates"
    environment = Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "bytes": size,
        "count": count,
        "code": _with_code,
        "moment": _moment,
        "plain": plain,
        "share": report_charts.share_text,
        "duration": _duration,
        "partition": report_charts.partition_text,
    }
    return environment.get_template("report.html.jinja")


def _charts(data: ReportData) -> dict[str, Markup]:
    """The charts that the table has something to show in, by name."""
    from markupsafe import Markup  # noqa: PLC0415 - comes with Jinja2

    specs: dict[str, dict[str, Any]] = {}
    if data.history.commits:
        specs["commits"] = report_charts.commits_in_time(data.history.commits)
        if any(commit.files.added_bytes or commit.files.removed_bytes for commit in data.history.commits):
            specs["bytes"] = report_charts.bytes_in_time(data.history.commits)
    if data.totals.files:
        specs["sizes"] = report_charts.files_by_bin(data.files.sizes)
        specs["ages"] = report_charts.files_by_bin(data.files.ages)
    if data.files.hidden_shares:
        specs["hidden"] = report_charts.files_by_bin(data.files.hidden_shares)
    if data.files.partitions and data.files.partitions.largest:
        specs["partitions"] = report_charts.bytes_by_partition(data.files.partitions.largest)
    if columns := report_charts.columns_shown(data.layout.columns):
        specs["layout"] = report_charts.share_by_column(columns)
    # Vega escapes the text in its output.
    return {name: Markup(report_charts.svg_of(spec)) for name, spec in specs.items()}  # noqa: S704


def _moment(timestamp_ms: int | None) -> str:
    """`2026-03-01 10:30:05`, in UTC; a dash for no time."""
    if timestamp_ms is None:
        return "-"
    text = iso_time(timestamp_ms)
    return f"{timestamp_ms} ms since 1970" if text is None else text[:19].replace("T", " ")


def _with_code(text: str) -> Markup:
    """The text escaped, with what is between backticks set as code."""
    from markupsafe import Markup, escape  # noqa: PLC0415 - comes with Jinja2

    parts = [
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(text.split("`"))
    ]
    return Markup("").join(parts)


def _duration(milliseconds: int) -> str:
    """`7 days`, `12 hours`, `90 minutes`."""
    for unit_ms, name in ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second")):
        if milliseconds >= unit_ms and milliseconds % unit_ms == 0:
            return count(milliseconds // unit_ms, name)
    return count(milliseconds, "millisecond")


def _span(data: ReportData) -> str:
    """The time that the commits cover, for the descriptions of charts."""
    return report_charts.time_range(data.history.commits) if data.history.commits else ""
