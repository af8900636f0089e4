"""The arguments and the help of `anabranch report`."""

# ruff: noqa: PLC0415 - what the command needs is imported when it runs

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli.output import print_json, print_report, reporting, show_progress
from anabranch.cli.shared_arguments import Debug, Json, LongOptions, Table


def report(
    table: Table,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file to write. \\[default: NAME-report.html]",
            show_default=False,
        ),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", metavar="", help="Open the page in a browser.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="NUMBER", min=0, help="How many commits to read; 0 for all.")
    ] = 1000,
    option: LongOptions = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    r"""Write a page about the state of the table: versions, files, layout, log, schema, and who can read it.

    The page is one HTML file that needs no network. It is made from the log alone: no data file is read and nothing
    is changed. It says what OPTIMIZE, REORG and VACUUM would gain, and how many files a lookup by each column reads.
    It needs pip install "anabranch\[report]"; --json, which prints the numbers, does not.
    """
    with reporting(as_json=as_json, debug=debug):
        from anabranch.cli.table_opening import open_snapshots
        from anabranch.cli.written_report import read_report, write_report
        from anabranch.progress import progress_events

        show_progress(as_json=as_json)
        snapshots = open_snapshots(table, option or [])
        with progress_events.reporting("report", snapshots.store.root):
            made = read_report(snapshots, limit=limit or None)
            written = None if as_json else write_report(made, output, open_page=open_page)
        if written is None:
            print_json(made.document())
        else:
            print_report(written, as_json=False)
