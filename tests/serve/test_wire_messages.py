"""Messages about tables: one descriptor, by which clients write them, and a handler on the server for every kind."""

from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("grpc")

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto
from pyspark.sql.connect import proto

import anabranch.connect_messages
from anabranch.callbacks.message_handlers.message_dispatch import COMMANDS, RELATIONS, content_of
from anabranch.callbacks.message_handlers.received_message import MessageFields
from anabranch.connect_messages.message_classes import extension_of, message, message_class
from anabranch.connect_messages.message_descriptor import COMMAND, PACKAGE, RELATION, descriptor_set
from anabranch.errors.arguments import ClientMessageError

SOURCE = f"{anabranch.connect_messages.__path__[0]}/delta_connect.proto"
FIELD = re.compile(r"(?:(optional|repeated) )?(map<string, string>|[\w.]+) (\w+) = (\d+);")

Fields = set[tuple[str, str, str, str, int]]
"""Message, label, type, name and number."""


def fields_of_source() -> Fields:
    """The fields as the source file declares them."""
    fields: Fields = set()
    scopes: list[str] = []
    with open(SOURCE, encoding="utf-8") as lines:
        for line in (line.partition("//")[0].strip() for line in lines):
            if opened := re.match(r"(message|oneof|enum) (\w+) {(}?)", line):
                if not opened[3]:
                    scopes.append(opened[2] if opened[1] == "message" else f"{opened[1]} {opened[2]}")
            elif line == "}":
                scopes.pop()
            elif (field := FIELD.fullmatch(line)) and not scopes[-1].startswith("enum"):
                kind = "".join(word.title() for word in field[3].split("_")) + "Entry" if "<" in field[2] else field[2]
                label = "repeated" if "<" in field[2] else field[1] or ""
                owner = ".".join(scope for scope in scopes if " " not in scope)
                fields.add((owner, label, kind.rpartition(".")[2], field[3], int(field[4])))
    return fields


def fields_of(descriptor: DescriptorProto, outer: str = "") -> Fields:
    name = f"{outer}{descriptor.name}"
    fields: Fields = set()
    for field in descriptor.field:
        kind = field.type_name.rpartition(".")[2] or FieldDescriptorProto.Type.Name(field.type)[5:].lower()
        label = "repeated" if field.label == FieldDescriptorProto.LABEL_REPEATED else ""
        fields.add((name, label or ("optional" if field.proto3_optional else ""), kind, field.name, field.number))
    for nested in descriptor.nested_type:
        fields |= set() if nested.options.map_entry else fields_of(nested, f"{name}.")
    return fields


def test_the_descriptor_is_that_of_the_file() -> None:
    """Run scripts/compile_messages.py after a change."""
    (file,) = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set()).file
    assert (file.name, file.package) == ("delta_connect.proto", PACKAGE)
    described = set().union(*(fields_of(message_type) for message_type in file.message_type))
    assert described == fields_of_source()
    assert len(described) > 90


def test_every_kind_has_a_handler() -> None:
    for family, handlers in ((RELATION, RELATIONS), (COMMAND, COMMANDS)):
        assert [field.message_type.name for field in message_class(family).DESCRIPTOR.fields] == list(handlers)


def test_a_message_is_written_by_the_names_of_its_fields() -> None:
    relation = proto.Relation()
    relation.range.end = 3
    pairs = [message("Assignment", field=proto.Expression(), value=proto.Expression())]
    url, data = extension_of(RELATION, message("UpdateTable", target=relation, condition=None, assignments=pairs))
    assert url == "type.googleapis.com/delta.connect.DeltaRelation"
    sent = message_class(RELATION).FromString(data).update_table
    assert sent.target == relation
    assert not sent.HasField("condition")
    assert len(sent.assignments) == 1
    assert sent.assignments[0].HasField("value")
    created = message("CreateDeltaTable", mode="MODE_REPLACE", properties={"a": "b"}, clustering_columns=("x", "y"))
    assert (created.mode, dict(created.properties), list(created.clustering_columns)) == (3, {"a": "b"}, ["x", "y"])
    assert message("VacuumTable", retention_hours=0.0).HasField("retention_hours")
    with pytest.raises(KeyError):
        message("VacuumTable", nope=1)


def test_plans_may_be_nested_deeper_than_protobuf_parses() -> None:
    relation = proto.Relation()
    for _ in range(300):
        outer = proto.Relation()
        outer.limit.input.CopyFrom(relation)
        relation = outer
    _, data = extension_of(RELATION, message("MergeIntoTable", target=relation, source=relation))
    assert len(data) > 2 * 300


def test_what_is_unknown_is_refused() -> None:
    assert content_of(RELATION, json.dumps({"Scan": {"table": {}}})) == MessageFields(kind="Scan", values={"table": {}})
    for family, content in ((RELATION, {}), (RELATION, {"Later": {}}), (RELATION, {"Generate": {}})):
        with pytest.raises(ClientMessageError, match="nothing that this release handles"):
            content_of(family, json.dumps(content))


def test_fields_that_must_be_set() -> None:
    fields = MessageFields(kind="Generate", values={"mode": "", "inner": {"name": "x"}, "several": [{"a": 1}]})
    with pytest.raises(ClientMessageError, match=r"Generate .* table is not set"):
        fields.required("table")
    with pytest.raises(ClientMessageError, match="mode is empty"):
        fields.required("mode")
    inner = fields.message("inner")
    assert inner is not None
    assert (inner.required("name"), fields.message("nope"), fields.get("nope")) == ("x", None, None)
    assert [message.get("a") for message in fields.messages("several")] == [1]
