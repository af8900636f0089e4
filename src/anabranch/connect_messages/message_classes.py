"""The classes of the messages in `delta_connect.proto`. They need the package protobuf, which clients have."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.message import Message
from pyspark.sql.connect import proto

from anabranch.connect_messages.message_descriptor import PACKAGE, TYPE_PREFIX, descriptor_set


def message(kind: str, **values: Any) -> Message:
    """A message of the kind, such as `Scan` or `MergeIntoTable.Action`, with these values of its fields.

    None leaves a field unset. Messages, lists and mappings are copied. Values of enumerations are names.
    """
    created: Message = message_class(kind)()
    for name, value in values.items():
        if value is not None:
            _set_field(created, name, value)
    return created


def extension_of(family: str, content: Message) -> tuple[str, bytes]:
    """The type URL and the bytes of the message with that content, which Spark's messages carry as an extension."""
    extension = message_class(family)()
    field = next(field for field in extension.DESCRIPTOR.fields if field.message_type is content.DESCRIPTOR)
    _set_field(extension, field.name, content)
    return f"{TYPE_PREFIX}{family}", bytes(extension.SerializeToString())


@functools.cache
def message_class(kind: str) -> Any:
    """The class of a message by its name."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{kind}"))


@functools.cache
def _pool() -> Any:
    pool: Any = proto.Relation.DESCRIPTOR.file.pool
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set()).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def _set_field(target: Message, name: str, value: Any) -> None:
    if isinstance(value, Message):
        # The constructor and MergeFrom parse bytes, which fails for deeply nested plans; CopyFrom does not.
        getattr(target, name).SetInParent()
        getattr(target, name).CopyFrom(value)
    elif isinstance(value, Mapping):
        getattr(target, name).update(value)
    elif isinstance(value, list | tuple):
        for item in value:
            _add_item(getattr(target, name), item)
    else:
        choices = target.DESCRIPTOR.fields_by_name[name].enum_type
        setattr(target, name, value if choices is None else choices.values_by_name[value].number)


def _add_item(items: Any, item: Any) -> None:
    if isinstance(item, Message):
        items.add().CopyFrom(item)
    else:
        items.append(item)
