"""The command `anabranch`. Here stand names, arguments and help; what a command does is in the module of its name.

Modules are imported when their command runs, so that `--help` and `history` answer at once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from anabranch import __version__
from anabranch.cli.output import print_json, reporting

app = typer.Typer(
    name="anabranch",
    help=(
        "See and check Delta Lake tables without writing code.\n\n"
        "TABLE is a folder or a URL: ./flights, /data/sales, s3://bucket/sales, gs://…, abfss://… "
        "Nothing but the demo starts Java."
    ),
    epilog=(
        "Exit codes: 0 all is well, 1 an error (fsck: or problems found), 2 the command was not understood, "
        "130 stopped by Ctrl-C."
    ),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Table = Annotated[str, typer.Argument(metavar="TABLE", help="Folder or URL of the table.", show_default=False)]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="KEY=VALUE",
        help="Storage setting by its Hadoop name, such as fs.s3a.endpoint=http://localhost:9000. May be repeated; "
        "what is not given comes from the environment (AWS_…, GOOGLE_…, AZURE_…).",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="One JSON document on standard output, and nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", metavar="", help="Show the traceback of an error.")]
Where = Annotated[
    str | None,
    typer.Option(
        "--where", "-w", metavar="SQL", help="A condition as after WHERE: \"month = 3 AND carrier = 'UA'\"."
    ),
]
Columns = Annotated[
    str | None, typer.Option("--columns", "-c", metavar="A,B", help="Columns by name, parted by commas.")
]
Version = Annotated[int | None, typer.Option("--version", "-v", min=0, help="The version to look at.")]
Timestamp = Annotated[
    str | None,
    typer.Option(
        "--timestamp",
        "-t",
        metavar="TIME",
        help="The version of that time: 2026-03-01, '2026-03-01 10:30' (local) or 2026-03-01T10:30:00Z.",
    ),
]


@app.callback(invoke_without_command=True)
def _start(
    version: Annotated[bool, typer.Option("--version", help="Show the version of anabranch and stop.")] = False,
) -> None:
    if version:
        typer.echo(f"anabranch {__version__}")
        raise typer.Exit


def _examples(*lines: str) -> str:
    """The last paragraph of a command's help."""
    return "\b\nExamples:\n" + "\n".join(f"  anabranch {line}" for line in lines)


@app.command(epilog=_examples("history ./flights", "history s3://bucket/sales --limit 50", "history ./flights --json"))
def history(
    table: Table,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Commits to show; 0 for all.")] = 20,
    option: Options = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Who changed the table, when and how: one row a commit, newest first."""
    with reporting(as_json=as_json, debug=debug):
        from anabranch.cli.history import history_document, print_history
        from anabranch.cli.opening import open_snapshots

        snapshots = open_snapshots(table, option or [])
        entries = snapshots.history(limit or None)
        if as_json:
            print_json(history_document(snapshots.store.root, entries))
        else:
            print_history(snapshots, entries, limit=limit or None)


def run() -> None:
    """The entry point of the program."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            # A terminal that lacks a character shall show its escape, not end the command.
            reconfigure(errors="backslashreplace")
    app()


if __name__ == "__main__":
    run()
