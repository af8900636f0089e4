"""The values of a report: what `--json` prints, and what the page is made from.

Names of tables, columns and users are as in the log; in texts, characters that a terminal would obey are escaped.
Times are in milliseconds since the Unix epoch, sizes in bytes.
"""

from __future__ import annotations

import enum

import msgspec

from anabranch.table_report.file_change_summary import FileChangeSummary


class Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of all values. JSON has their fields in camelCase."""


class Level(enum.StrEnum):
    """How much a fact matters."""

    OK = "ok"
    NOTICE = "notice"
    WARNING = "warning"


class TableFacts(Value, frozen=True, kw_only=True):
    """What the table is."""

    name: str | None
    """The name in the catalog or in the metadata; None for a table that only has a path."""
    location: str
    id: str
    description: str | None
    version: int
    timestamp_ms: int
    created_ms: int | None
    partition_columns: tuple[str, ...]
    clustering_columns: tuple[str, ...]
    properties: dict[str, str | None]


class Totals(Value, frozen=True, kw_only=True):
    """The live files, added up."""

    files: int
    bytes: int
    rows: int | None
    """The rows that a query sees; None where the log lacks the row count of a file."""
    hidden_rows: int
    files_with_hidden_rows: int
    files_without_row_count: int


class Advice(Value, frozen=True, kw_only=True):
    """Something to do about the table."""

    level: Level
    text: str
    command: str | None = None


class CommitSummary(Value, frozen=True, kw_only=True):
    """One commit."""

    version: int
    timestamp_ms: int
    operation: str | None
    parameters: str
    user: str | None
    engine: str | None
    user_metadata: str | None
    files: FileChangeSummary
    metrics: str
    """What the writer counted, in words."""
    read_version: int | None
    isolation_level: str | None
    is_blind_append: bool | None
    landed_after: tuple[int, ...]
    """Versions that other writers committed between the one read and this one: the commit was rebased over them."""
    run_again_after: tuple[int, ...]
    """Versions in conflict with which the operation was executed again."""
    reconciled: tuple[str, ...]
    """How the commit was rebased, one step a line."""
    description_changes: tuple[str, ...]
    """Changes of schema, properties and protocol, one a line."""


class History(Value, frozen=True, kw_only=True):
    """The commits that were read, newest first."""

    commits: tuple[CommitSummary, ...]
    commits_in_log: int
    """More than were read where a limit was set."""


class Bin(Value, frozen=True, kw_only=True):
    """Files of which a measure is within a range."""

    label: str
    files: int
    bytes: int


class PartitionFacts(Value, frozen=True, kw_only=True):
    """The files of one partition."""

    values: dict[str, str | None]
    files: int
    bytes: int
    rows: int | None
    hidden_rows: int


class Partitions(Value, frozen=True, kw_only=True):
    """The partitions of a table."""

    count: int
    files_least: int
    files_median: float
    files_most: int
    largest: tuple[PartitionFacts, ...]
    """The largest by bytes; not all of them."""


class FileFacts(Value, frozen=True, kw_only=True):
    """The live files by size, age, hidden rows and partition."""

    sizes: tuple[Bin, ...]
    ages: tuple[Bin, ...]
    hidden_shares: tuple[Bin, ...]
    """By the share of rows that deletion vectors hide; empty where no file hides any."""
    partitions: Partitions | None
    """None for a table without partition columns."""


class OptimizeGain(Value, frozen=True, kw_only=True):
    """What OPTIMIZE would do, without settings of a session."""

    files_rewritten: int
    files_written: int
    """An estimate: compression of the rewritten rows may differ."""
    bytes_rewritten: int
    hidden_rows_purged: int
    target_bytes: int
    clusters: bool
    """Whether it would order rows by the clustering columns."""


class PurgeGain(Value, frozen=True, kw_only=True):
    """What REORG TABLE … APPLY (PURGE) would do."""

    files_rewritten: int
    bytes_rewritten: int
    hidden_rows: int
    bytes_freed: int
    """An estimate by the share of rows, where row counts exist."""


class VacuumGain(Value, frozen=True, kw_only=True):
    """What VACUUM would delete of the files that the log removed. Files that no commit mentions are not counted."""

    retention_ms: int
    files: int
    bytes: int
    files_later: int
    """Removed files that are still within the retention."""
    bytes_later: int
    last_vacuum_ms: int | None
    """When the last VACUUM in the commits read was completed."""


class Maintenance(Value, frozen=True, kw_only=True):
    """What maintenance would gain."""

    optimize: OptimizeGain
    purge: PurgeGain
    vacuum: VacuumGain


class ColumnRole(enum.StrEnum):
    """What the table uses a column for."""

    PARTITION = "partition"
    CLUSTERING = "clustering"
    NONE = "none"


class ColumnLayout(Value, frozen=True, kw_only=True):
    """How well minimum and maximum of the files separate the values of one column."""

    name: str
    type: str
    role: ColumnRole
    files_with_bounds: int
    files_only_null: int
    files_without_bounds: int
    """Always read by a lookup."""
    average_files: float | None
    """How many files a lookup of one value reads; None where no file has bounds."""
    fraction: float | None
    """The same as a share of all files."""


class Layout(Value, frozen=True, kw_only=True):
    """The layout of the files, by column."""

    columns: tuple[ColumnLayout, ...]
    columns_left_out: int
    """Columns beyond those that were measured."""


class HealthCheck(Value, frozen=True, kw_only=True):
    """One fact about the log."""

    name: str
    level: Level
    text: str


class LogHealth(Value, frozen=True, kw_only=True):
    """The state of `_delta_log`."""

    checkpoint_version: int | None
    checkpoint_ms: int | None
    commits_since_checkpoint: int
    checkpoint_interval: int
    checksum: str
    """`agrees`, `missing`, or `differs`."""
    log_files: int
    log_bytes: int
    earliest_version: int
    log_retention_ms: int
    cleanup_enabled: bool
    expired_files: int
    """Log files that the next clean-up would delete."""
    in_commit_timestamps: bool
    checks: tuple[HealthCheck, ...]


class ColumnFacts(Value, frozen=True, kw_only=True):
    """One column of the schema, at the top level."""

    name: str
    type: str
    nullable: bool
    comment: str | None


class DescriptionChange(Value, frozen=True, kw_only=True):
    """A commit that changed schema, properties or protocol."""

    version: int
    timestamp_ms: int
    operation: str | None
    changes: tuple[str, ...]


class SchemaFacts(Value, frozen=True, kw_only=True):
    """The schema, and how it came about as far as commits were read."""

    columns: tuple[ColumnFacts, ...]
    changes: tuple[DescriptionChange, ...]
    """Newest first."""


class FeatureFacts(Value, frozen=True, kw_only=True):
    """One feature that the protocol supports."""

    name: str
    readers_need_it: bool
    active: bool | None
    """Whether it is in use; None for a feature that this release does not know."""


class ReaderFacts(Value, frozen=True, kw_only=True):
    """Whether a program can read the table."""

    program: str
    tested: str
    """The release on which the answer rests."""
    reads: bool | None
    """None where a feature was not tested with the program."""
    reason: str


class Access(Value, frozen=True, kw_only=True):
    """What a program needs to know to read or write the table."""

    min_reader_version: int
    min_writer_version: int
    features: tuple[FeatureFacts, ...]
    readers: tuple[ReaderFacts, ...]


class ReportData(Value, frozen=True, kw_only=True):
    """The state of one table, as its log describes it."""

    anabranch: str
    """The release that made the report."""
    generated_ms: int
    table: TableFacts
    totals: Totals
    advice: tuple[Advice, ...]
    history: History
    files: FileFacts
    maintenance: Maintenance
    layout: Layout
    log: LogHealth
    schema: SchemaFacts
    access: Access
