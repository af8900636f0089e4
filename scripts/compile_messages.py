"""Compiles delta_connect.proto to the descriptor that both ends of its messages read.

    python scripts/compile_messages.py

It needs grpcio-tools, which nothing else does: pip install grpcio-tools. Messages of Spark's are taken from PySpark.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from google.protobuf import descriptor_pb2
from pyspark.sql.connect import proto

FOLDER = Path(__file__).parents[1] / "src/anabranch/connect_messages"
SOURCE, DESCRIPTOR = FOLDER / "delta_connect.proto", FOLDER / "delta_connect.binpb"


def main() -> int:
    """The exit code of the compiler."""
    from grpc_tools import protoc  # noqa: PLC0415 - says at once how to get it

    with tempfile.TemporaryDirectory() as folder:
        sparks = Path(folder, "spark.binpb")
        sparks.write_bytes(sparks_files().SerializeToString())
        options = [f"--descriptor_set_in={sparks}", f"--proto_path={FOLDER}", f"--descriptor_set_out={DESCRIPTOR}"]
        return int(protoc.main(["protoc", *options, SOURCE.name]))


def sparks_files() -> descriptor_pb2.FileDescriptorSet:
    """The files that ours imports, each behind those that it imports."""
    files: dict[str, descriptor_pb2.FileDescriptorProto] = {}

    def add(file) -> None:  # type: ignore[no-untyped-def]
        for imported in file.dependencies:
            add(imported)
        if file.name not in files:
            files[file.name] = descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb)

    for message in (proto.Relation, proto.Expression, proto.DataType):
        add(message.DESCRIPTOR.file)
    return descriptor_pb2.FileDescriptorSet(file=files.values())


if __name__ == "__main__":
    sys.exit(main())
