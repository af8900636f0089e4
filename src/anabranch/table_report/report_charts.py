"""The charts of a report: Vega-Lite specifications, drawn as static SVG.

Colors are CSS variables of the page, which differ between dark and light. Text from the table is data of a chart, which
Vega escapes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from anabranch.errors.environment import ReportExtraMissingError
from anabranch.table_report.report_values import Bin, ColumnLayout, ColumnRole, CommitSummary, PartitionFacts
from anabranch.text_format import iso_time, plain, size

VEGA_LITE: Final = "5.21"
WIDTH: Final = 400
TIME_BINS: Final = 48
BIN_MS_MIN: Final = 1000
OPERATIONS_MAX: Final = 8
"""Operations with a line of their own in the chart of commits; the others share one."""
DOT_COMMITS_MIN: Final = 10
"""The largest dot is for that many commits, or more."""
CHARACTER_PIXELS: Final = 8
"""A generous width: the page's font is that of the reader's system, which cannot be measured here."""
COLUMNS_MAX: Final = 24
LABEL_CHARACTERS: Final = 24
_FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
_CONFIG: Final[dict[str, Any]] = {
    "aria": False,
    "background": None,
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--ink-2)",
        "titleColor": "var(--ink-2)",
        "titleFontWeight": "normal",
        "gridColor": "var(--line-1)",
        "domainColor": "var(--line-2)",
        "tickColor": "var(--line-2)",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelLimit": 210,
        "titlePadding": 8,
    },
    "text": {"color": "var(--ink-2)", "fontSize": 12},
}
_SERIES: Final = ("var(--series-1)", "var(--series-2)")
_PADDING: Final = {"left": 4, "top": 6, "bottom": 4, "right": 36}
"""Room at the right for text that the reader's font makes longer than it is here."""
_NO_GRID: Final = {"grid": False, "ticks": False, "domain": False, "title": None, "labelPadding": 6}


def svg_of(spec: dict[str, Any]) -> str:
    """The chart as an SVG element. Raises `ReportExtraMissingError`."""
    try:
        import vl_convert  # noqa: PLC0415 - in an extra, and `--json` needs none
    except ImportError:
        raise ReportExtraMissingError(library="vl-convert-python") from None
    whole = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "config": _CONFIG, **spec}
    svg: str = vl_convert.vegalite_to_svg(whole, vl_version=VEGA_LITE, allowed_base_urls=[])
    # The page names the picture as a whole; a reader of screens need not go through its parts.
    return re.sub(r"^<svg ", '<svg aria-hidden="true" focusable="false" ', svg, count=1)


def files_by_bin(bins: Sequence[Bin]) -> dict[str, Any]:
    """Bars of the number of files, a line for each bin, with files and bytes at their ends."""
    rows = [
        {
            "label": entry.label,
            "value": entry.files,
            "text": f"{entry.files:,} · {size(entry.bytes)}" if entry.files else "0",
        }
        for entry in bins
    ]
    return _bars(rows)


def bytes_by_partition(partitions: Sequence[PartitionFacts]) -> dict[str, Any]:
    """Bars of the bytes of partitions."""
    rows = [
        {
            "label": _short(partition_text(entry)),
            "value": entry.bytes,
            "text": f"{size(entry.bytes)} · {entry.files:,}",
        }
        for entry in partitions
    ]
    return _bars(rows)


def columns_shown(columns: Sequence[ColumnLayout]) -> list[ColumnLayout]:
    """The columns of the chart: those that the table is laid out by come first, none without bounds."""
    measured = [column for column in columns if column.fraction is not None]
    return sorted(measured, key=lambda column: column.role is ColumnRole.NONE)[:COLUMNS_MAX]


def share_by_column(columns: Sequence[ColumnLayout]) -> dict[str, Any]:
    """Bars of the share of files that a lookup reads, from 0 to 1."""
    rows = [
        {
            "label": _short(column.name),
            "value": column.fraction,
            "text": share_text(column.fraction or 0.0),
        }
        for column in columns
    ]
    return _bars(rows, domain=(0, 1))


def share_text(share: float) -> str:
    """`100 %`, `3.6 %`, `0.001 %`."""
    percent = share * 100
    if percent >= 99.95:
        return "100 %"
    return f"{percent:.1f} %" if percent >= 1 else f"{percent:.2g} %"


def partition_text(partition: PartitionFacts) -> str:
    """`day=2026-03-01, hour=7`."""
    return ", ".join(f"{name}={'null' if value is None else value}" for name, value in partition.values.items())


def commits_in_time(commits: Sequence[CommitSummary]) -> dict[str, Any]:
    """A dot for the commits of one operation within a stretch of time; a diamond where one was rebased or run again."""
    width_ms = _bin_width_ms(commits)
    named = {name for name, _ in Counter(_operation(commit) for commit in commits).most_common(OPERATIONS_MAX)}
    dots: dict[tuple[str, int], dict[str, Any]] = {}
    for commit in reversed(commits):
        operation = _operation(commit) if _operation(commit) in named else "others"
        dot = dots.setdefault(
            (operation, commit.timestamp_ms // width_ms),
            {"operation": operation, "time": commit.timestamp_ms, "commits": 0, "rebased": False},
        )
        dot["commits"] += 1
        dot["rebased"] = dot["rebased"] or bool(commit.landed_after or commit.run_again_after)
    largest = max(dot["commits"] for dot in dots.values())
    longest = max(len(dot["operation"]) for dot in dots.values())
    axis = {**_NO_GRID, "minExtent": longest * CHARACTER_PIXELS}
    sizes = {"type": "sqrt", "range": [40, 240], "domain": [1, max(largest, DOT_COMMITS_MIN)]}
    return {
        "width": WIDTH - longest * CHARACTER_PIXELS + 40,
        "height": {"step": 28},
        "padding": _PADDING,
        "data": {"values": list(dots.values())},
        "mark": {"type": "point", "filled": True, "opacity": 0.8},
        "encoding": {
            "x": {"field": "time", **_time_axis(commits, width_ms)},
            "y": {"field": "operation", "type": "nominal", "sort": None, "axis": axis},
            "size": {"field": "commits", "type": "quantitative", "scale": sizes, "legend": None},
            "shape": {
                "field": "rebased",
                "scale": {"domain": [False, True], "range": ["circle", "diamond"]},
                "legend": None,
            },
            "color": {"field": "rebased", "scale": {"domain": [False, True], "range": list(_SERIES)}, "legend": None},
        },
    }


def bytes_in_time(commits: Sequence[CommitSummary]) -> dict[str, Any]:
    """Bytes added above the line and removed below it, by stretches of time."""
    width_ms = _bin_width_ms(commits)
    added, removed = Counter[int](), Counter[int]()
    for commit in commits:
        start = commit.timestamp_ms // width_ms * width_ms
        added[start] += commit.files.added_bytes
        removed[start] -= commit.files.removed_bytes or 0
    rows = [
        {"start": start, "end": start + width_ms * 0.86, "bytes": number, "kind": kind}
        for kind, numbers in (("added", added), ("removed", removed))
        for start, number in sorted(numbers.items())
        if number
    ]
    axis = {"title": None, "labelExpr": "format(abs(datum.value), '~s') + 'B'", "tickCount": 5}
    return {
        "width": WIDTH,
        "height": 180,
        "padding": _PADDING,
        "data": {"values": rows},
        "mark": "bar",
        "encoding": {
            "x": {"field": "start", **_time_axis(commits, width_ms)},
            "x2": {"field": "end"},
            "y": {"field": "bytes", "type": "quantitative", "axis": axis},
            "y2": {"datum": 0},
            "color": {
                "field": "kind",
                "type": "nominal",
                "scale": {"domain": ["added", "removed"], "range": list(_SERIES)},
                "legend": None,
            },
        },
    }


def _time_axis(commits: Sequence[CommitSummary], width_ms: int) -> dict[str, Any]:
    """The axis of both charts of time: whole bins from that of the first commit to that of the last one."""
    first, last = (commit.timestamp_ms // width_ms * width_ms for commit in (commits[-1], commits[0]))
    domain = [first, max(last + width_ms, first + TIME_BINS * BIN_MS_MIN)]
    axis = {"title": None, "grid": False, "tickCount": 5}
    return {"type": "temporal", "scale": {"type": "utc", "domain": domain}, "axis": axis}


def time_range(commits: Sequence[CommitSummary]) -> str:
    """The times of the first and the last commit, in words."""
    days = [(iso_time(commit.timestamp_ms) or "an unknown time")[:10] for commit in (commits[-1], commits[0])]
    return f"on {days[0]}" if days[0] == days[1] else f"from {days[0]} to {days[1]}"


def _bars(rows: list[dict[str, Any]], *, domain: tuple[float, float] | None = None) -> dict[str, Any]:
    """Horizontal bars, with a text at the end of each."""
    # Two labels may be cut to the same text, and must not share a line.
    rows = [{**row, "key": f"{number}:{row['label']}"} for number, row in enumerate(rows)]
    scale = {"domain": list(domain)} if domain else {}
    x = {"field": "value", "type": "quantitative", "axis": None, "scale": scale}
    longest = max(len(row["label"]) for row in rows)
    label = {
        **_NO_GRID,
        "minExtent": longest * CHARACTER_PIXELS,
        "labelExpr": "slice(datum.label, indexof(datum.label, ':') + 1)",
    }
    y = {"field": "key", "type": "nominal", "sort": None, "axis": label}
    return {
        "width": WIDTH - longest * CHARACTER_PIXELS - 90,
        "height": {"step": 24},
        "padding": _PADDING,
        "data": {"values": rows},
        "encoding": {"x": x, "y": y},
        "layer": [
            {"mark": {"type": "bar", "color": "var(--series-1)", "height": 14}},
            {"mark": {"type": "text", "align": "left", "dx": 6}, "encoding": {"text": {"field": "text"}}},
        ],
    }


def _bin_width_ms(commits: Sequence[CommitSummary]) -> int:
    times = [commit.timestamp_ms for commit in commits]
    return max((max(times) - min(times)) // TIME_BINS, BIN_MS_MIN)


def _operation(commit: CommitSummary) -> str:
    return _short(commit.operation or "not recorded")


def _short(text: str) -> str:
    return plain(text, LABEL_CHARACTERS)
