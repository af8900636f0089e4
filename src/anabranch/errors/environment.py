"""Errors about the environment of tables: Spark, its sessions, programs for delta-spark, storages and servers."""

from __future__ import annotations

import re

from anabranch.errors.base import DeltaAnalysisError, DeltaError, delta_error

# Errors about running on Spark.


@delta_error("DELTA_SPARK_CLASS_MISSING", "0A000")
class SparkClassMissingError(DeltaError):
    """This release of Spark lacks a class that anabranch needs."""

    name: str
    places: tuple[str, ...]
    spark_version: str

    def explain(self) -> str:
        return (
            f"Spark {self.spark_version} has no class {' or '.join(self.places)}, which anabranch "
            "needs. Use a release of PySpark that is supported (4.0 to 4.3)."
        )


@delta_error("DELTA_WRITTEN_FILE_INVALID", "58030")
class WrittenFileError(DeltaError):
    """Spark reported a data file that cannot be part of the table. Nothing was committed."""

    template = "Data file {path}, just written for {table}, {problem}. Nothing was committed. Run the operation again."
    table: str
    path: str
    problem: str


@delta_error("ANABRANCH_EXTENSION_CLASH", "55000")
class ExtensionClashError(DeltaError):
    """The driver's JVM has a class with the name of one of anabranch's and other contents."""

    template = (
        "The driver's JVM has a class {name} that does not belong to this version of anabranch. It comes from "
        "{location}. If another version was enabled in this JVM before, restart Python, and with it the JVM. If a jar "
        "of the session has a package of that name, start without the jar."
    )
    name: str
    location: str


@delta_error("ANABRANCH_EXTENSION_NOT_LOADED", "0A000")
class ExtensionNotLoadedError(DeltaError):
    """anabranch's Java classes cannot be loaded into the driver's JVM. Nothing was enabled."""

    template = (
        "anabranch's Java classes cannot be loaded into the driver of this Spark {spark_version}: {problem}. Use a "
        "supported release of PySpark (4.0 to 4.3), as it is published."
    )
    spark_version: str
    problem: str


@delta_error("ANABRANCH_DELTA_JAR_PRESENT", "55000")
class DeltaJarPresentError(DeltaError):
    """The session was started with the delta-spark jar, which handles Delta tables itself."""

    template = (
        "This session has the delta-spark jar ({location}), and only one of the two can handle Delta tables. To use "
        "anabranch, start without it: remove io.delta:delta-spark from spark.jars.packages (or the jar from "
        "spark.jars), io.delta.sql.DeltaSparkSessionExtension from spark.sql.extensions, and "
        "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog. `anabranch run` leaves them "
        "out for you. To use the jar, do not call anabranch.enable."
    )
    location: str


@delta_error("ANABRANCH_SESSION_CATALOG_TAKEN", "55000")
class SessionCatalogTakenError(DeltaError):
    """Another library has set the session's catalog."""

    template = (
        "spark.sql.catalog.spark_catalog is {catalog}, and a session has only one such catalog. Start without that "
        "setting: the other library's tables can have a catalog of another name, as in "
        "spark.sql.catalog.other={catalog}."
    )
    catalog: str


@delta_error("ANABRANCH_SERVER_WITHOUT_DELTA", "0A000")
class ServerWithoutDeltaError(DeltaError):
    """The server of a Spark Connect session does not know Delta, and a client cannot change that."""

    template = (
        "The Spark Connect server of this session does not know Delta tables: it lacks {lacks}. Connect to a server "
        "that `anabranch serve` has started, or work in this process with `anabranch.session()`."
    )
    lacks: str


# Errors about types and contents of data files.


@delta_error("DELTA_UNSUPPORTED_DATA_TYPES", "0AKDC")
class DataTypeNotPortableError(DeltaAnalysisError):
    """A column has a type that data files of a table cannot have."""

    template = "A Delta table cannot hold values of type {data_type}. Cast the column to another type."

    data_type: str


@delta_error("ANABRANCH_DATA_FILE_MISMATCH")
class DataFileMismatchError(DeltaError):
    """A data file does not have the columns of the table's schema."""

    template = (
        "The data file {path} of {table} does not have column {column} as {expected}: {problem}. The program that "
        "wrote it did not follow the table's schema, or the file is damaged. Put a correct copy back, or RESTORE the "
        "table to a version without it."
    )

    table: str
    path: str
    column: str
    expected: str
    problem: str


# Errors about storages.


_WAYS_OUT = {
    "a directory|AlreadyExists|EEXIST": "A file has the path of a folder that is needed: choose another path",
    "read-only file system|EROFS": "The disk is mounted read-only: mount it for writing, or choose another folder",
    "denied|mkdirs failed|EPERM": "Spark's user has no right to do so: grant it, or choose another folder",
    "no space left|ENOSPC|quota": "Free space there, then run the operation again",
    "too many open files|EMFILE|ENFILE": "Let the process open more files (`ulimit -n`), then run the operation again",
}
"""What the reader can do, by a pattern of the cause."""


@delta_error("DELTA_STORAGE_ERROR", "58030")
class StorageError(DeltaError):
    """The storage refused or failed. `cause` is its own message without secrets."""

    root: str
    path: str
    doing: str
    """A verb that `path` completes: `read`, `write`, `list`."""
    cause: str

    def explain(self) -> str:
        where = f"{self.path} in {self.root}" if self.path else self.root
        return f"Could not {self.doing} {where}: {self.cause.rstrip('.')}. {self._way_out()}."

    def _way_out(self) -> str:
        ways = (way for words, way in _WAYS_OUT.items() if re.search(words, self.cause, re.IGNORECASE))
        return next(ways, "Check that the storage can be reached")


_WAYS_OUT_OF_JOBS = {
    "no space left|quota": "Free space for temporary files (spark.local.dir, TMPDIR), then run it again",
    "read-only file system": "Choose a disk for temporary files that can be written (spark.local.dir, TMPDIR)",
    "too many open files": "Let Spark's processes open more files (`ulimit -n`), then run it again",
    "OutOfMemory|cannot allocate": "Give Spark more memory: spark.driver.memory, spark.executor.memory",
    "executor": "Executors end mostly for lack of memory: see their logs, and spark.executor.memory and memoryOverhead",
}
"""What the reader can do about a job that failed, by a pattern of the cause."""


@delta_error("ANABRANCH_JOB_FAILED", "58000")
class JobFailedError(DeltaError):
    """A job of Spark's failed because of its surroundings: an executor, memory, a disk for temporary files."""

    operation: str
    table: str
    cause: str
    """What failed, in one line."""

    def explain(self) -> str:
        ways = (way for words, way in _WAYS_OUT_OF_JOBS.items() if re.search(words, self.cause, re.IGNORECASE))
        failed = f"A job of {self.operation} on {self.table} failed: {self.cause.rstrip('.')}"
        return f"{failed}. The table is as its last commit left it. {next(ways, 'Run it again')}."


_SETTINGS_OF_KEYS = {
    "s3": (
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN too for temporary keys)",
        "fs.s3a.access.key and fs.s3a.secret.key",
        "fs.s3a.aws.credentials.provider=org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
    ),
    "gs": (
        "GOOGLE_APPLICATION_CREDENTIALS, the path of a key file",
        "fs.gs.auth.service.account.json.keyfile",
        "fs.gs.auth.type=UNAUTHENTICATED",
    ),
    "az": (
        "AZURE_STORAGE_ACCOUNT_KEY, or AZURE_CLIENT_ID, AZURE_CLIENT_SECRET and AZURE_TENANT_ID",
        "fs.azure.account.key.ACCOUNT.dfs.core.windows.net",
        None,
    ),
}
"""Environment variables, Hadoop's settings, and the setting for public data, by the beginning of the URL, else `az`."""


@delta_error("ANABRANCH_STORAGE_CREDENTIALS_MISSING", "28000")
class CredentialsMissingError(StorageError):
    """The storage needs credentials, and neither settings, environment nor this machine's role have some."""

    def explain(self) -> str:
        kind = next((kind for kind in _SETTINGS_OF_KEYS if self.root.startswith(kind)), "az")
        variables, settings, public = _SETTINGS_OF_KEYS[kind]
        for_public = f"; for public data set {public}" if public else ""
        return (
            f"Could not {self.doing} {self.path} in {self.root}: no credentials were found, and this machine's role "
            f"gives none. Set the environment variables {variables}, or Hadoop's settings {settings} (in a session "
            f"spark.hadoop.…, in the terminal --option KEY=VALUE){for_public}."
        )


@delta_error("DELTA_FILE_NOT_FOUND", "42K03")
class FileMissingError(StorageError, FileNotFoundError):
    """The file does not exist. Also Python's `FileNotFoundError`."""

    doing: str = "read"
    cause: str = "there is no such file"

    def _way_out(self) -> str:
        return "Check the path, or put the file back"


@delta_error("DELTA_FILE_NOT_FOUND_DETAILED", "42K03")
class DataFileMissingError(DeltaError, FileNotFoundError):
    """A data file that a query needs does not exist. Also Python's `FileNotFoundError`."""

    table: str
    file: str
    version: int | None
    """The table's newest version if it needs the file; otherwise None."""

    def explain(self) -> str:
        missing = f"Data file {self.file} of {self.table} does not exist"
        if self.version is None:
            return (
                f"{missing}. The table's newest version does not need it: the query reads an older version, whose "
                "files VACUUM deleted. Read a newer version; to keep older ones readable for longer, raise "
                "delta.deletedFileRetentionDuration."
            )
        return (
            f"{missing}, and version {self.version} needs it: neither DELETE nor VACUUM removed it. Put it back, "
            "or RESTORE the table to a version without it. `anabranch fsck` lists all missing files."
        )


@delta_error("DELTA_DATA_FILE_UNREADABLE", "KD001")
class DataFileDamagedError(DeltaError):
    """A data file cannot be read as Parquet with the table's columns."""

    table: str
    file: str
    version: int | None
    """The table's newest version if it needs the file; otherwise None."""
    problem: str

    def explain(self) -> str:
        needed = "an older version" if self.version is None else f"version {self.version}"
        return (
            f"Data file {self.file} of {self.table}, which {needed} needs, cannot be read: {self.problem.rstrip('.')}. "
            "Put an intact copy back, or RESTORE the table to a version without it. `anabranch fsck` lists files that "
            "are missing or have another size."
        )


@delta_error("DELTA_FILE_TOO_LARGE", "54000")
class FileTooLargeError(StorageError):
    """A file is larger than a file of its kind can be. Nothing of it was read."""

    doing: str = "read"
    cause: str = ""
    size_bytes: int
    size_max: int

    def explain(self) -> str:
        return (
            f"Refused to read {self.path} in {self.root}: it has {self.size_bytes} bytes, and a file of its kind has "
            f"at most {self.size_max}."
        )


@delta_error("DELTA_PATH_OUTSIDE_TABLE", "22023")
class PathOutsideTableError(DeltaError, ValueError):
    """A path leaves the table's root, or is not a path that storage can have."""

    template = (
        "Refused the path {path!r} in {root} because it {reason}. Paths within a table are relative, separated by '/', "
        "and stay below its root."
    )

    root: str
    path: str
    reason: str
    """Completes "because it …": `has a '..' segment`."""


@delta_error("DELTA_CONDITIONAL_PUT_UNSUPPORTED", "0A000")
class ConditionalPutUnsupportedError(StorageError):
    """The storage cannot create a file only if it does not exist, so two writers could commit the same version."""

    doing: str = "write"
    endpoint: str
    """The service that was called, or the kind of file system."""
    way_out: str

    def explain(self) -> str:
        return (
            f"Refused to write to {self.root}: {self.endpoint} {self.cause}, so two writers could overwrite "
            f"each other's commits. {self.way_out}."
        )


@delta_error("DELTA_UNSUPPORTED_STORAGE", "0A000")
class UnsupportedStorageError(DeltaError, ValueError):
    """No storage of anabranch supports the URL."""

    template = "Cannot open {url}: {reason}. {way_out}."

    url: str
    reason: str
    """A clause, such as "anabranch does not know the scheme 'ftp'"."""
    way_out: str


@delta_error("DELTA_STORAGE_OPTION_INVALID", "22023")
class StorageOptionError(DeltaError, ValueError):
    """An option of a storage has an invalid value. Values that may be secret are not shown."""

    template = "Cannot use the storage option {option}: {reason}."

    option: str
    reason: str


# Errors about servers for clients.


@delta_error("ANABRANCH_SERVER_OPEN_TO_OTHERS", "28000")
class ServerOpenToOthersError(DeltaError, ValueError):
    """A server without authentication would listen on an address that others reach. Nothing was started."""

    template = (
        "Refused to listen on {host}: {server} would run any statement of any client that reaches that address. "
        "{way_out}, or listen on 127.0.0.1, which only programs of this machine reach."
    )
    host: str
    server: str
    way_out: str


@delta_error("ANABRANCH_SERVER_NOT_STARTED", "58000")
class ServerNotStartedError(DeltaError):
    """A server for clients did not start. Servers that were started before it are stopped."""

    template = "{server} cannot be started on {address}: {problem}. {way_out}."
    server: str
    address: str
    problem: str
    way_out: str


@delta_error("ANABRANCH_SERVER_NOT_HEALTHY", "08001")
class ServerNotHealthyError(DeltaError):
    """The address has no server that executes statements."""

    template = "{server} at {address}: {problem}."
    server: str
    address: str
    problem: str


@delta_error("ANABRANCH_METASTORE_TAKEN", "55006")
class MetastoreTakenError(DeltaError):
    """Another process has opened the metastore in the warehouse folder."""

    template = (
        "Another process has the metastore {metastore} open, and only one process can. Let its clients and yours use "
        "one server, choose another --warehouse, or use a metastore for several processes: --conf "
        "spark.hadoop.hive.metastore.uris=thrift://…"
    )
    metastore: str


@delta_error("ANABRANCH_REPORT_EXTRA_MISSING", "42704")
class ReportExtraMissingError(DeltaError):
    """The libraries that draw the page of a report are not installed."""

    template = (
        "The page of a report is made with {library}, which is not installed. Run: pip install 'anabranch[report]'. "
        "`anabranch report TABLE --json` prints the numbers without it."
    )
    library: str
