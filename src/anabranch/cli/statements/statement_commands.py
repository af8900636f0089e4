"""The commands that execute a statement by Spark: `sql`, `optimize`, `vacuum` and `restore`."""

# ruff: noqa: PLC0415 - each command imports what it needs when it runs

from __future__ import annotations

import sys
from typing import Annotated

import typer

from anabranch.cli.output import print_report, reporting
from anabranch.cli.shared_arguments import Debug, Json, Options, Settings, Table


def sql(
    statement: Annotated[
        str,
        typer.Argument(
            metavar="STATEMENT",
            help="One statement. Write a table as delta.`/absolute/path` or delta.`URL`. With - the statement is read "
            "from standard input.",
            show_default=False,
        ),
    ],
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="NUMBER", min=0, help="How many rows to show; 0 for all.")
    ] = 100,
    conf: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Execute a statement of Spark SQL on Delta tables, and show its rows.

    Starts a local Spark for it, which takes some seconds; `shell` keeps one for many statements. The statement is
    executed once, whether it reads or writes.
    """
    with reporting(as_json=as_json, debug=debug):
        from anabranch.cli.statements.sql_statement import run_statement
        from anabranch.cli.statements.statement_session import running_session, session_settings

        text = sys.stdin.read() if statement == "-" else statement
        with running_session(session_settings(conf or [])) as spark:
            print_report(run_statement(spark, text, limit=limit or None), as_json=as_json)


def optimize(
    table: Table,
    where: Annotated[
        str | None,
        typer.Option("--where", "-w", metavar="SQL", help="Rewrite only partitions for which this condition is true."),
    ] = None,
    zorder: Annotated[
        str | None,
        typer.Option(
            "--zorder", metavar="A,B", help="Put rows with similar values of these columns into the same files."
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            metavar="",
            help="Cluster all files of a clustered table again, also those that are clustered already.",
        ),
    ] = False,
    option: Options = None,
    conf: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Combine small files into larger ones, and remove rows that deletion vectors hide.

    Readers and writers can continue meanwhile. The old files stay for readers of earlier versions, until vacuum
    deletes them.
    """
    with reporting(as_json=as_json, debug=debug):
        from anabranch.cli.statements.maintenance_statements import optimize_table
        from anabranch.cli.statements.statement_session import table_in_session

        columns = [name.strip() for name in (zorder or "").split(",") if name.strip()]
        with table_in_session(table, options=option or [], conf=conf or []) as opened:
            print_report(optimize_table(opened, where=where, zorder_by=columns, full=full), as_json=as_json)


def vacuum(
    table: Table,
    retain: Annotated[
        float | None,
        typer.Option(
            "--retain",
            metavar="HOURS",
            min=0,
            help="Keep the files of versions of the last HOURS. \\[default: the property of the table, or a week]",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="List the files without deleting any.")
    ] = False,
    lite: Annotated[
        bool,
        typer.Option("--lite", metavar="", help="Find the files through the log instead of listing the folder."),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", metavar="", help="Delete without confirmation, for scripts.")
    ] = False,
    option: Options = None,
    conf: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Delete files that no version within the retention needs. Afterwards older versions cannot be read.

    It shows how many files these are, and waits for your confirmation. Without a terminal it needs --yes or --dry-run.
    """
    if not dry_run and not yes and not sys.stdin.isatty():
        message = "vacuum deletes files, and here no user can confirm that: add --yes, or --dry-run to see the files"
        raise typer.BadParameter(message, param_hint="--yes")
    with reporting(as_json=as_json, debug=debug):
        from anabranch.cli.statements.maintenance_statements import vacuum_table
        from anabranch.cli.statements.statement_session import table_in_session
        from anabranch.commands.vacuum.vacuum_command import VacuumRequest

        request = VacuumRequest(retention_hours=retain, dry_run=dry_run, lite=lite or None)
        with table_in_session(table, options=option or [], conf=conf or []) as opened:
            print_report(vacuum_table(opened, request, confirmed=yes), as_json=as_json)


def restore(
    table: Table,
    version: Annotated[
        int | None, typer.Option("--version", "-v", metavar="NUMBER", min=0, help="The version to restore.")
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            "--timestamp", "-t", metavar="TIME", help="Restore the version of that time, written as for show."
        ),
    ] = None,
    option: Options = None,
    conf: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Return the table to an earlier version, by a new commit that a further restore can undo.

    The files of that version must still exist: vacuum may have deleted them.
    """
    if (version is None) == (timestamp is None):
        raise typer.BadParameter("name one version, by --version or by --timestamp", param_hint="--version")
    with reporting(as_json=as_json, debug=debug):
        from anabranch.cli.statements.maintenance_statements import restore_table
        from anabranch.cli.statements.statement_session import table_in_session, travel_to

        travel = travel_to(version=version, timestamp=timestamp)
        with table_in_session(table, options=option or [], conf=conf or []) as opened:
            print_report(restore_table(opened, travel), as_json=as_json)
