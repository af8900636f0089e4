"""The program `anabranch`: names, arguments and help of its commands, each implemented by the module of its name.

Modules are imported when their command runs, so that `--help` and `history` answer at once.
"""

# ruff: noqa: PLC0415 - each command imports what it needs when it runs

from __future__ import annotations

import enum
import inspect
import sys
from typing import Annotated

import typer

from anabranch import __version__
from anabranch.cli.output import print_json, print_report, reporting
from anabranch.cli.report import report
from anabranch.cli.serve import serve
from anabranch.cli.shared_arguments import (
    Columns,
    Commits,
    Debug,
    Json,
    Options,
    Table,
    Timestamp,
    Version,
    Where,
)
from anabranch.cli.startup import block_pandas
from anabranch.cli.statements import statement_commands

app = typer.Typer(
    name="anabranch",
    help=(
        "See and check Delta Lake tables without writing code, and run programs written for delta-spark.\n\n"
        "TABLE is a folder or a URL: ./flights, /data/sales, s3://bucket/sales, gs://…, abfss://… "
        "Only sql, optimize, vacuum, restore, demo, run, shell and serve start Java."
    ),
    epilog=(
        "Exit codes: 0 all is well, 1 an error (fsck: or problems found), 2 the command was not understood, "
        "130 stopped by Ctrl-C. run: those of the program."
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _start(
    version: Annotated[bool, typer.Option("--version", help="Show the version of anabranch and stop.")] = False,
) -> None:
    if version:
        typer.echo(f"anabranch {__version__}")
        raise typer.Exit


def _examples(*lines: str) -> str:
    """The last paragraph of a command's help, with these examples."""
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
        from anabranch.cli.history import read_history
        from anabranch.cli.table_opening import open_snapshots

        print_report(read_history(open_snapshots(table, option or []), limit=limit or None), as_json=as_json)


@app.command(epilog=_examples("detail ./flights", "detail s3://bucket/sales --json"))
def detail(table: Table, option: Options = None, as_json: Json = False, debug: Debug = False) -> None:
    """What the table is: size, rows, schema, partitioning, properties, protocol and the state of its log."""
    with reporting(as_json=as_json, debug=debug):
        from anabranch.cli.detail import table_detail
        from anabranch.cli.table_opening import open_snapshots

        print_report(table_detail(open_snapshots(table, option or [])), as_json=as_json)


@app.command(
    epilog=_examples(
        "show ./flights",
        'show ./flights --columns carrier,origin,dep_delay --where "month = 3 AND dep_delay > 60"',
        "show ./flights --version 3 --limit 5",
        "show ./flights --timestamp '2026-03-01 10:30'",
    )
)
def show(
    table: Table,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Rows to show.")] = 20,
    columns: Columns = None,
    where: Where = None,
    version: Version = None,
    timestamp: Timestamp = None,
    option: Options = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """The first rows of the table, now or at an earlier version.

    Only files that can hold a row for --where are opened. Conditions are comparisons, IN, BETWEEN, IS NULL
    and LIKE 'prefix%', joined by AND, OR and NOT; a condition that needs Spark is refused.
    """
    with reporting(as_json=as_json, debug=debug):
        from anabranch.cli.show import first_rows
        from anabranch.cli.table_opening import open_snapshots, select_snapshot, storage_options

        snapshots = open_snapshots(table, option or [])
        rows = first_rows(
            select_snapshot(snapshots, version=version, timestamp=timestamp),
            snapshots.store,
            limit=limit,
            columns=columns,
            where=where,
            options=storage_options(option or []),
        )
        print_report(rows, as_json=as_json)


@app.command(
    epilog=_examples(
        "files ./flights",
        'files ./flights --where "month = 3"',
        "files ./flights --columns time_hour,dep_delay --limit 0",
    )
)
def files(
    table: Table,
    where: Where = None,
    columns: Columns = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=0, help="Files to list, 0 for all. [default: 100; all with --json]"),
    ] = None,
    version: Version = None,
    timestamp: Timestamp = None,
    option: Options = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """The live files: size, rows, hidden rows, partition, and minimum and maximum of chosen columns.

    With --where: which files the condition would read and how many it skips, by partition values and statistics.
    """
    with reporting(as_json=as_json, debug=debug):
        from anabranch.cli.files import FILES_SHOWN, list_files
        from anabranch.cli.table_opening import open_snapshots, select_snapshot

        if limit is None:
            limit = 0 if as_json else FILES_SHOWN
        snapshots = open_snapshots(table, option or [])
        snapshot = select_snapshot(snapshots, version=version, timestamp=timestamp)
        print_report(list_files(snapshot, where=where, columns=columns, limit=limit or None), as_json=as_json)


@app.command(
    context_settings={"ignore_unknown_options": True},  # or -1 would be taken for an option
    epilog=_examples("log ./flights", "log ./flights 16", "log ./flights -2", "log ./flights 0 --raw"),
)
def log(
    table: Table,
    number: Annotated[int, typer.Argument(metavar="N", help="The version; -1 is the newest, -2 the one before.")] = -1,
    raw: Annotated[
        bool, typer.Option("--raw", metavar="", help="The actions as the log has them, one a line.")
    ] = False,
    option: Options = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """One commit in words: who did what, what it read, which commits landed first, which files and settings changed."""
    with reporting(as_json=as_json, debug=debug):
        from anabranch.cli.log_entry import RawCommit, read_entry
        from anabranch.cli.table_opening import open_snapshots

        entry = read_entry(open_snapshots(table, option or []), number)
        print_report(RawCommit(table=entry.table, commit=entry.commit) if raw else entry, as_json=as_json)


@app.command(epilog=_examples("checkpoint ./flights", "checkpoint ./flights --log-compaction 4..6"))
def checkpoint(
    table: Table,
    log_compaction: Commits = None,
    option: Options = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a checkpoint of the newest version, so that readers need not replay the log from further back.

    Writers do this by themselves every few commits (delta.checkpointInterval).
    """
    with reporting(as_json=as_json, debug=debug):
        from anabranch.cli.checkpoint import checkpoint_newest, compact_log
        from anabranch.cli.table_opening import open_snapshots

        snapshots = open_snapshots(table, option or [])
        written = checkpoint_newest(snapshots) if log_compaction is None else compact_log(snapshots, log_compaction)
        print_report(written, as_json=as_json)


@app.command(epilog=_examples("fsck ./flights", "fsck s3://bucket/sales --json"))
def fsck(table: Table, option: Options = None, as_json: Json = False, debug: Debug = False) -> None:
    """Check the table, and report each problem with its remedy. Never changes anything.

    Looks for gaps and damage in the log, checkpoints that cannot be read, a stale or corrupt _last_checkpoint,
    checksums that disagree with the log, data files that are missing or of another size, deletion vectors that
    cannot be read, and table features that this anabranch does not support.

    Exit code 0: clean. 1: problems found.
    """
    with reporting(as_json=as_json, debug=debug):
        from anabranch.cli.fsck.fsck_command import check_table
        from anabranch.cli.table_opening import open_table_store
        from anabranch.progress.progress_display import install_display

        if not as_json:
            install_display()
        report = check_table(open_table_store(table, option or []))
        print_report(report, as_json=as_json)
        if report.problems:
            raise typer.Exit(1)


app.command(
    epilog=_examples(
        "report ./flights --open", "report s3://bucket/sales -o sales.html", "report ./flights --json > flights.json"
    )
)(report)


@app.command(epilog=_examples("demo ./flights", "demo ./flights --rows 20000"))
def demo(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Folder for the new table.", show_default=False)],
    rows: Annotated[
        int | None,
        typer.Option("--rows", min=100, help="Load only about this many. [default: all 336,776]", show_default=False),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    r"""Make a Delta table of 336,776 real flights, written by four processes at once, and show what it can do.

    Takes about a minute. Needs Java 17 and the flights: pip install "anabranch\[demo]". Leaves the table for
    you to explore. A folder that holds anything but an earlier demo table is left alone.
    """
    with reporting(as_json=as_json, debug=debug):
        from anabranch.cli.demo.demo_command import run_demo
        from anabranch.cli.output import console, error_console

        out = error_console() if as_json else console()
        result = run_demo(path, rows=rows, say=out.print, show_history=not as_json)
        if as_json:
            print_json(result.document())


STATEMENTS = "Statements"
for _statement, _lines in (
    (statement_commands.sql, ("sql 'SELECT count(*) FROM delta.`/data/flights`'", "sql - --json < daily.sql")),
    (statement_commands.optimize, ("optimize ./flights", "optimize ./flights --zorder origin,dest")),
    (statement_commands.vacuum, ("vacuum ./flights --dry-run", "vacuum ./flights --retain 240 --yes")),
    (statement_commands.restore, ("restore ./flights --version 3", "restore ./flights -t '2026-03-01 10:30'")),
):
    app.command(rich_help_panel=STATEMENTS, epilog=_examples(*_lines))(_statement)

PROGRAMS = "Programs written for delta-spark"


@app.command(
    "run",
    rich_help_panel=PROGRAMS,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog=_examples("run script.py", "run script.py --day 2026-03-01", "run -m dbt build", 'run -c "import delta"'),
)
def run_program(
    program: Annotated[
        list[str],
        typer.Argument(
            metavar="PROGRAM",
            help="As after `python`: SCRIPT, -m MODULE or -c CODE. The arguments that follow go to the program.",
            show_default=False,
        ),
    ],
) -> None:
    """Run a Python program that was written for delta-spark, without changing it.

    Every Spark session that it or its libraries make knows Delta. `import delta` gives anabranch's classes, also
    where delta-spark is installed. Settings that would load the delta-spark jar are left out, with a warning.
    The rest is as with python: arguments, exit code, tracebacks.
    """
    from anabranch.cli.programs import program_run

    parsed = program_run.program_of(program)
    if parsed is None:
        raise typer.BadParameter(f"{program[0]} is no script, and neither -m MODULE nor -c CODE", param_hint="PROGRAM")
    program_run.run_program(parsed)


@app.command(rich_help_panel=PROGRAMS, epilog=_examples("shell", "shell --conf spark.remote=sc://localhost"))
def shell(
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", "-c", metavar="KEY=VALUE", help="Setting of the session. May be repeated."),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", metavar="", help="Python's own shell, also where IPython is installed.")
    ] = False,
    debug: Debug = False,
) -> None:
    """An interactive Python with a Spark session that knows Delta: `spark`.

    Uses IPython where it is installed. The session is local unless a setting or the environment says otherwise.
    """
    with reporting(as_json=False, debug=debug):
        from anabranch.cli.programs.shell import start_shell

        start_shell(conf or [], plain=plain)


class Position(enum.StrEnum):
    """Positions of the switch `auto`."""

    ON = "on"
    OFF = "off"
    STATUS = "status"


@app.command(rich_help_panel=PROGRAMS, epilog=_examples("auto on", "auto status", "auto off"))
def auto(
    position: Annotated[
        Position, typer.Argument(metavar="on|off|status", help="Switch on, switch off, or show the state.")
    ] = Position.STATUS,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Make every Python of this environment do what `run` does, until it is switched off again.

    For programs that schedulers, notebooks or spark-submit start. Writes one file, anabranch_auto.pth, into
    site-packages, and changes nothing else. ANABRANCH_AUTO=0 leaves one process out.
    """
    with reporting(as_json=as_json, debug=debug):
        from anabranch.cli.programs.auto_switch import turn

        print_report(turn(position.value), as_json=as_json)


app.command(
    rich_help_panel="Clients",
    epilog=_examples(
        "serve --warehouse /data/warehouse",
        "serve --connect 15002 --conf spark.driver.memory=8g",
        "serve --check --connect 15002",
    ),
)(serve)

for _command in app.registered_commands:
    # typer would keep the line breaks of a docstring, which are none of the reader's terminal.
    _paragraphs = (inspect.getdoc(_command.callback) or "").split("\n\n")
    _command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in _paragraphs)


def run() -> None:
    """The entry point of the program."""
    if sys.argv[1:2] == ["run"]:
        from anabranch.cli.programs import program_run

        program = program_run.program_of(sys.argv[2:])
        if program is not None:
            # Not through typer, which would catch the program's exceptions before Python does.
            program_run.run_program(program)
            return
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            # A terminal that lacks a character then shows its escape, and the command goes on.
            reconfigure(errors="backslashreplace")
    if sys.argv[1:2] not in (["demo"], ["shell"], ["serve"], ["sql"], ["optimize"], ["vacuum"], ["restore"]):
        block_pandas()
    app()


if __name__ == "__main__":
    run()
