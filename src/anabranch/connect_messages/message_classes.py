"""The classes of the messages in `delta_connect.proto`, for clients: they have the package protobuf."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.message import Message
from pyspark.sql.connect import proto

from anabranch.connect_messages.message_descriptor import PACKAGE, TYPE_PREFIX, descriptor_set


def message(kind: str, **values: Any) -> Message:
    """A message by its name in the file, as `Scan` or `MergeIntoTable.Action`, with these fields.

    None leaves a field unset. Messages, lists and mappings are copied, and an item of an enumeration has its name.
    """
    made: Message = message_class(kind)()
    for name, value in values.items():
        if value is not None:
            _set_field(made, name, value)
    return made


def extension_of(family: str, content: Message) -> tuple[str, bytes]:
    """The name and the bytes by which Spark's messages hold a relation or a command with that content."""
    sent = message_class(family)()
    field = next(field for field in sent.DESCRIPTOR.fields if field.message_type is content.DESCRIPTOR)
    _set_field(sent, field.name, content)
    return f"{TYPE_PREFIX}{family}", bytes(sent.SerializeToString())


@functools.cache
def message_class(kind: str) -> Any:
    """The class of a message."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{kind}"))


@functools.cache
def _pool() -> Any:
    pool: Any = proto.Relation.DESCRIPTOR.file.pool
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set()).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def _set_field(made: Message, name: str, value: Any) -> None:
    if isinstance(value, Message):
        # Neither the constructor nor MergeFrom: both parse bytes, and plans may be nested deeper than that goes.
        getattr(made, name).SetInParent()
        getattr(made, name).CopyFrom(value)
    elif isinstance(value, Mapping):
        getattr(made, name).update(value)
    elif isinstance(value, list | tuple):
        for item in value:
            _add_item(getattr(made, name), item)
    else:
        choices = made.DESCRIPTOR.fields_by_name[name].enum_type
        setattr(made, name, value if choices is None else choices.values_by_name[value].number)


def _add_item(items: Any, item: Any) -> None:
    if isinstance(item, Message):
        items.add().CopyFrom(item)
    else:
        items.append(item)
