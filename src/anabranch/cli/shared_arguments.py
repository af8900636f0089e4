"""Arguments and options that several commands of `anabranch` have."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Table = Annotated[str, typer.Argument(metavar="TABLE", help="Folder or URL of the table.", show_default=False)]


def _storage_option(*names: str) -> Any:
    return typer.Option(
        *names,
        metavar="KEY=VALUE",
        help="A storage setting by its Hadoop name, such as fs.s3a.endpoint=http://localhost:9000. May be repeated; "
        "other settings come from the environment (AWS_…, GOOGLE_…, AZURE_…).",
        show_default=False,
    )


Options = Annotated[list[str] | None, _storage_option("--option", "-o")]
LongOptions = Annotated[list[str] | None, _storage_option("--option")]
"""The same where `-o` names a file."""
Settings = Annotated[
    list[str] | None,
    typer.Option("--conf", "-c", metavar="KEY=VALUE", help="A setting of the session. May be repeated."),
]
Json = Annotated[
    bool, typer.Option("--json", metavar="", help="Print one JSON document to standard output, and nothing else.")
]
Debug = Annotated[bool, typer.Option("--debug", metavar="", help="If there is an error, show its traceback.")]
Where = Annotated[
    str | None,
    typer.Option("--where", "-w", metavar="SQL", help="A condition as in SQL: \"month = 3 AND carrier = 'UA'\"."),
]
Columns = Annotated[
    str | None, typer.Option("--columns", "-c", metavar="A,B", help="Names of columns, separated by commas.")
]
Version = Annotated[
    int | None,
    typer.Option("--version", "-v", metavar="NUMBER", min=0, help="The version to read; the newest by default."),
]
Commits = Annotated[
    str | None,
    typer.Option(
        "--log-compaction",
        metavar="FIRST..LAST",
        help="Write a log compaction instead: one file that readers may use in place of these commits.",
        show_default=False,
    ),
]
Timestamp = Annotated[
    str | None,
    typer.Option(
        "--timestamp",
        "-t",
        metavar="TIME",
        help="Read the version of that time: 2026-03-01, '2026-03-01 10:30' (local) or 2026-03-01T10:30:00Z.",
    ),
]
