"""The judge of logs: does every prefix of a `_delta_log` keep to the protocol?

It reads JSON by itself and shares no code with what it judges, but for what reads deletion vectors. Vectors whose
files are not there, as in tests that only name them, are judged by what the log says of them.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Collection
from typing import Any

from anabranch.deletion_vectors.vector_descriptors import vector_path
from anabranch.deletion_vectors.vector_reading import load_vector
from anabranch.errors.log import DeletionVectorError
from anabranch.protocol.actions import DeletionVectorDescriptor
from anabranch.storage.log_store import LogStore
from anabranch.storage.memory_store import MemoryStore

Key = tuple[str, str | None]
COMMIT = re.compile(r"_delta_log/(\d{20})\.json")
MAY_SHRINK = {"RESTORE", "REPLACE TABLE", "CREATE OR REPLACE TABLE"}
"""Operations that may bring hidden rows back."""
CHECKSUM = re.compile(r"_delta_log/(\d{20})\.crc")


@dataclasses.dataclass
class ReplayedLog:
    """What the commits so far have made of the table."""

    store: LogStore
    live: dict[Key, dict[str, Any]] = dataclasses.field(default_factory=dict)
    protocol: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    transactions: dict[str, int] = dataclasses.field(default_factory=dict)
    row_id_mark: int = -1
    row_ids: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    live_before: frozenset[str] = frozenset()
    """Paths of the version before the one that is judged."""
    timestamp: int | None = None
    txn_ids: dict[str, int] = dataclasses.field(default_factory=dict)
    is_foreign: bool = False
    uncounted: set[Key] = dataclasses.field(default_factory=set)
    """Files of other engines that have a vector and do not say how many rows they have."""


def lint(store: LogStore, *, foreign: Collection[int] = ()) -> list[str]:
    """What is wrong, in words; empty for a sound log. Every prefix is judged, since commits are replayed in order.

    Commits of `foreign` versions are another engine's: they need not say where they come from, nor count rows.
    """
    files = {file.path: file for file in store.list_from("_delta_log")}
    versions = sorted(int(match[1]) for path in files if (match := COMMIT.fullmatch(path)))
    problems: list[str] = []
    if versions != list(range(len(versions))):
        problems.append(f"versions are not contiguous from 0: {versions}")
    checksums = {int(match[1]) for path in files if (match := CHECKSUM.fullmatch(path))}
    state = ReplayedLog(store=store)
    for version in versions:
        state.is_foreign = version in foreign
        of_version = judge_commit(state, version, store.read(f"_delta_log/{version:020d}.json"))
        if version in checksums:
            of_version += _judge_checksum(state, json.loads(store.read(f"_delta_log/{version:020d}.crc")))
        problems += [f"version {version}: {problem}" for problem in of_version]
    return problems


def judge_commit(state: ReplayedLog, version: int, data: bytes) -> list[str]:
    """Replay the next commit, and return what is wrong with it."""
    lines = parsed(data)
    if not lines:
        return ["the commit is empty"]
    problems = [f"a line holds {len(line)} actions" for line in lines if len(line) != 1]
    problems += _nulls(lines)
    kinds: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        for kind, action in line.items():
            kinds.setdefault(kind, []).append(action)
    for kind in ("metaData", "protocol", "commitInfo"):
        if len(kinds.get(kind, [])) > 1:
            problems.append(f"{len(kinds[kind])} {kind} actions")
    state.protocol = kinds.get("protocol", [state.protocol])[0]
    state.metadata = kinds.get("metaData", [state.metadata])[0]
    if state.protocol is None or state.metadata is None:
        problems.append("no protocol or no metadata")
        return problems
    problems += [] if state.is_foreign else _judge_info(state, version, lines, kinds)
    problems += _judge_transactions(state, kinds.get("txn", []))
    operation = kinds.get("commitInfo", [{}])[0].get("operation", "")
    problems += _judge_counts(state, kinds.get("add", []))
    problems += _judge_vectors(state, kinds.get("add", []), may_shrink=operation in MAY_SHRINK)
    state.live_before = frozenset(path for path, _ in state.live)
    problems += _judge_files(state, kinds.get("add", []), kinds.get("remove", []))
    problems += _judge_row_ids(state, version, kinds)
    problems += _judge_files_by_description(state)
    return problems


@functools.lru_cache(maxsize=10_000)
def parsed(data: bytes) -> list[dict[str, Any]]:
    """The lines of a commit, not to be changed: a commit is judged more than once."""
    return [json.loads(line) for line in data.splitlines() if line.strip()]


def _nulls(lines: list[dict[str, Any]]) -> list[str]:
    """Values of maps may be null, fields may not."""
    problems = []
    for line in lines:
        for kind, action in line.items():
            problems += [f"{kind}.{name} is null" for name, value in action.items() if value is None]
    return problems


def _judge_info(
    state: ReplayedLog, version: int, lines: list[dict[str, Any]], kinds: dict[str, list[dict[str, Any]]]
) -> list[str]:
    problems = []
    infos = kinds.get("commitInfo", [])
    if len(infos) != 1 or "commitInfo" not in lines[0]:
        return ["commitInfo is missing or not first"]
    info = infos[0]
    if not info.get("txnId"):
        problems.append("no txnId")
    elif info["txnId"] in state.txn_ids:
        problems.append(f"txnId of version {state.txn_ids[info['txnId']]} again")
    else:
        state.txn_ids[info["txnId"]] = version
    if (info.get("readVersion") is None) != (version == 0) or info.get("readVersion", -1) >= version:
        problems.append(f"readVersion {info.get('readVersion')}")
    for name, value in {**info.get("operationParameters", {}), **info.get("operationMetrics", {})}.items():
        if not isinstance(value, str):
            problems.append(f"{name} is not a string")
    if info.get("isBlindAppend") and "remove" in kinds:
        problems.append("a blind append removes files")
    assert state.metadata is not None
    if state.metadata["configuration"].get("delta.enableInCommitTimestamps") == "true":
        time = info.get("inCommitTimestamp")
        if time is None or (state.timestamp is not None and time <= state.timestamp):
            problems.append(f"inCommitTimestamp {time} after {state.timestamp}")
        state.timestamp = time
    return problems


def _judge_transactions(state: ReplayedLog, transactions: list[dict[str, Any]]) -> list[str]:
    names = [action["appId"] for action in transactions]
    state.transactions.update({action["appId"]: action["version"] for action in transactions})
    return [f"application {name} twice" for name in set(names) if names.count(name) > 1]


def _key(action: dict[str, Any]) -> Key:
    vector = action.get("deletionVector")
    if vector is None:
        return action["path"], None
    offset = "" if vector.get("offset") is None else f"@{vector['offset']}"
    return action["path"], f"{vector['storageType']}{vector['pathOrInlineDv']}{offset}"


def _judge_files(state: ReplayedLog, adds: list[dict[str, Any]], removes: list[dict[str, Any]]) -> list[str]:
    problems = []
    keys = [_key(action) for action in (*adds, *removes)]
    problems += [f"{key} is named twice" for key in set(keys) if keys.count(key) > 1]
    for action in removes:
        if state.live.pop(_key(action), None) is None:
            problems.append(f"removes {_key(action)}, which is not live")
    assert state.metadata is not None
    partitioned = _stored_names(state.metadata)
    for action in adds:
        state.live[_key(action)] = action
        vector = action.get("deletionVector")
        if vector and "stats" in action and vector["cardinality"] > json.loads(action["stats"])["numRecords"]:
            problems.append(f"the vector of {action['path']} hides more rows than there are")
        missing = partitioned - action["partitionValues"].keys()
        if missing:
            problems.append(f"{action['path']} has no value for {missing}")
    paths = [path for path, _ in state.live]
    if len(paths) != len(set(paths)):
        problems += [f"{path} is live twice" for path in set(paths) if paths.count(path) > 1]
    changes = {action["dataChange"] for action in (*adds, *removes)}
    if len(changes) > 1:
        problems.append("dataChange is not uniform")
    return problems


def _stored_names(metadata: dict[str, Any]) -> set[str]:
    """The names by which files know the partition columns: with column mapping, the physical ones."""
    if metadata["configuration"].get("delta.columnMapping.mode", "none") == "none":
        return set(metadata["partitionColumns"])
    fields = {field["name"]: field["metadata"] for field in json.loads(metadata["schemaString"])["fields"]}
    return {fields[name]["delta.columnMapping.physicalName"] for name in metadata["partitionColumns"]}


def _judge_counts(state: ReplayedLog, adds: list[dict[str, Any]]) -> list[str]:
    """A file with a vector says how many rows it has, but where another engine left that out."""
    counted = {_key(action) for action in adds if "numRecords" in json.loads(action.get("stats", "{}"))}
    uncounted = {_key(action) for action in adds if "deletionVector" in action} - counted
    if state.is_foreign:
        state.uncounted |= uncounted
    return [f"{path} has a vector and no count of rows" for path, _ in uncounted - state.uncounted]


def _judge_files_by_description(state: ReplayedLog) -> list[str]:
    """Every live file satisfies protocol and properties of this version."""
    assert state.protocol is not None
    assert state.metadata is not None
    configuration = state.metadata["configuration"]
    supported = state.protocol.get("writerFeatures")
    problems = []
    for (path, vector), action in state.live.items():
        if vector and supported is not None and "deletionVectors" not in supported:
            problems.append(f"{path} has a vector, and the table does not support them")
        if vector and configuration.get("delta.compatibility.symlinkFormatManifest.enabled") == "true":
            problems.append(f"{path} has a vector, and the table keeps symlink manifests")
        if "baseRowId" not in action and configuration.get("delta.enableRowTracking") == "true":
            problems.append(f"{path} has no row ids, and row tracking is on")
    return problems


def _judge_vectors(state: ReplayedLog, adds: list[dict[str, Any]], *, may_shrink: bool) -> list[str]:
    """Vectors hide as many rows as they say, none beyond the file, and never fewer than before."""
    problems = []
    before = {path: action for (path, _), action in state.live.items()}
    for action in adds:
        path = action["path"]
        try:
            hidden = hidden_rows(state.store, action)
        except DeletionVectorError as error:
            problems.append(f"the vector of {path}: {error}")
            continue
        if not hidden:
            continue
        statistics = json.loads(action["stats"]) if "stats" in action else {}
        if max(hidden) >= statistics.get("numRecords", 2**63):
            problems.append(f"the vector of {path} hides row {max(hidden)} of {statistics['numRecords']}")
        if path in before and _key(before[path]) != _key(action):
            came_back = (hidden_rows(state.store, before[path]) or frozenset()) - hidden
            if came_back and not may_shrink:
                problems.append(f"the vector of {path} no longer hides {sorted(came_back)}")
            if statistics.get("minValues") and statistics.get("tightBounds") is not False:
                problems.append(f"the bounds of {path} are said to be tight, and rows of it were hidden")
    return problems


def hidden_rows(store: LogStore, action: dict[str, Any]) -> frozenset[int] | None:
    """What the vector of a file hides; None where there is none to be read."""
    vector = action.get("deletionVector")
    if vector is None or "sizeInBytes" not in vector:
        return None
    descriptor = DeletionVectorDescriptor(
        storage_type=vector["storageType"],
        path_or_inline_dv=vector["pathOrInlineDv"],
        offset=vector.get("offset"),
        size_in_bytes=vector["sizeInBytes"],
        cardinality=vector["cardinality"],
    )
    if descriptor.storage_type == "i":
        return _inline_rows(descriptor)
    if store.head(vector_path(descriptor, table_root=store.root)) is None:
        return None
    return frozenset(load_vector(store, descriptor))


@functools.lru_cache(maxsize=10_000)
def _inline_rows(descriptor: DeletionVectorDescriptor) -> frozenset[int]:
    return frozenset(load_vector(MemoryStore(), descriptor))


def _judge_row_ids(state: ReplayedLog, version: int, kinds: dict[str, list[dict[str, Any]]]) -> list[str]:
    assert state.protocol is not None
    if "rowTracking" not in (state.protocol.get("writerFeatures") or []):
        # Turned on again, ids are counted from the start.
        state.row_id_mark, state.row_ids = -1, {}
        return []
    problems = []
    mark = state.row_id_mark
    for domain in kinds.get("domainMetadata", []):
        if domain["domain"] == "delta.rowTracking":
            mark = json.loads(domain["configuration"])["rowIdHighWaterMark"]
    if mark < state.row_id_mark:
        problems.append(f"the row id mark falls from {state.row_id_mark} to {mark}")
    for action in kinds.get("add", []):
        problems += _judge_ids_of_file(state, version, action, mark)
    state.row_id_mark = mark
    return problems


def _judge_ids_of_file(state: ReplayedLog, version: int, action: dict[str, Any], mark: int) -> list[str]:
    assert state.metadata is not None
    base, path = action.get("baseRowId"), action["path"]
    if base is None and state.metadata["configuration"].get("delta.rowTrackingSuspended") == "true":
        return []
    if base is None or action.get("defaultRowCommitVersion") is None:
        return [f"{path} has no row ids"]
    ids = (base, base + json.loads(action["stats"])["numRecords"] - 1)
    if path in state.row_ids:
        if state.row_ids[path] == ids:
            return []
        if path in state.live_before or state.metadata["configuration"].get("delta.enableRowTracking") == "true":
            return [f"{path} changes its row ids"]
        # RESTORE to a version in which the file had none; ids are kept where row tracking is enabled, not before.
        del state.row_ids[path]
    problems = [
        f"row ids of {path} {ids} overlap with those of {other} {theirs}"
        for other, theirs in state.row_ids.items()
        if ids[0] <= theirs[1] and theirs[0] <= ids[1]
    ]
    if base <= state.row_id_mark or ids[1] > mark:
        problems.append(f"row ids of {path} {ids} do not fit the marks {state.row_id_mark} and {mark}")
    if action["defaultRowCommitVersion"] != version:
        problems.append(f"{path} says it came with version {action['defaultRowCommitVersion']}")
    state.row_ids[path] = ids
    return problems


def _judge_checksum(state: ReplayedLog, checksum: dict[str, Any]) -> list[str]:
    expected = {
        "numFiles": len(state.live),
        "tableSizeBytes": sum(action["size"] for action in state.live.values()),
        "numMetadata": 1,
        "numProtocol": 1,
        "metadata": state.metadata,
        "protocol": state.protocol,
    }
    problems = [
        f"the checksum says {name} = {checksum.get(name)}, the log {value}"
        for name, value in expected.items()
        if checksum.get(name) != value
    ]
    if "setTransactions" in checksum:
        said = {action["appId"]: action["version"] for action in checksum["setTransactions"]}
        if said != state.transactions:
            problems.append(f"the checksum says transactions {said}, the log {state.transactions}")
    return problems
