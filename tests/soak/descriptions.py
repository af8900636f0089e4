"""What the protocol requires of any version's description."""

from __future__ import annotations

from soak.versions import Version

FEATURES_OF_PROPERTIES = {
    "delta.enableDeletionVectors": "deletionVectors",
    "delta.enableChangeDataFeed": "changeDataFeed",
    "delta.enableRowTracking": "rowTracking",
    "delta.enableInCommitTimestamps": "inCommitTimestamp",
    "delta.enableTypeWidening": "typeWidening",
}
LEGACY = {
    "appendOnly": (1, 2),
    "invariants": (1, 2),
    "checkConstraints": (1, 3),
    "changeDataFeed": (1, 4),
    "generatedColumns": (1, 4),
    "columnMapping": (2, 5),
}
"""Reader and writer version that imply a feature, where the protocol has no list."""
READER_FEATURES = frozenset({"deletionVectors", "columnMapping", "typeWidening", "v2Checkpoint", "vacuumProtocolCheck"})


def problems_of_description(version: Version) -> list[str]:
    configuration, protocol = version.configuration, version.protocol
    active = {feature for name, feature in FEATURES_OF_PROPERTIES.items() if configuration.get(name) == "true"}
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        active.add("columnMapping")
    if any(name.startswith("delta.constraints.") for name in configuration):
        active.add("checkConstraints")
    if configuration.get("delta.checkpointPolicy") == "v2":
        active.add("v2Checkpoint")
    if version.clustered_by is not None:
        active |= {"clustering", "domainMetadata"}
    problems = [f"{feature} is active, and not in {protocol}" for feature in active if not _supports(protocol, feature)]
    return [*problems, *_problems_of_columns(version)]


def _supports(protocol: dict[str, object], feature: str) -> bool:
    reader, writer = protocol["minReaderVersion"], protocol["minWriterVersion"]
    assert isinstance(reader, int)
    assert isinstance(writer, int)
    named = protocol.get("writerFeatures") or []
    assert isinstance(named, list)
    if writer >= 7:
        readers = protocol.get("readerFeatures") or []
        assert isinstance(readers, list)
        if feature in READER_FEATURES and reader >= 3 and feature not in readers:
            return False
        return feature in named
    needed = LEGACY.get(feature)
    return needed is not None and reader >= needed[0] and writer >= needed[1]


def _problems_of_columns(version: Version) -> list[str]:
    problems = []
    physical = set(version.physical_names.values())
    if len(physical) != len(version.physical_names):
        problems.append(f"two columns have one physical name: {version.physical_names}")
    partitioned = version.metadata["partitionColumns"]
    if not set(partitioned) <= set(version.columns):
        problems.append(f"is partitioned by {partitioned}, and has the columns {version.columns}")
    clustered = version.clustered_by or []
    if any(len(path) != 1 or path[0] not in physical for path in clustered):
        problems.append(f"is clustered by {clustered}, and files have the columns {physical}")
    if clustered and partitioned:
        problems.append(f"is partitioned by {partitioned} and clustered by {clustered}")
    return problems
