"""Messages of clients, read by the numbers of their fields: bytes that are messages, and bytes that are not."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.callbacks.delta_sparks_clients.answer_clients import COMMANDS, RELATIONS, content_of
from anabranch.callbacks.delta_sparks_clients.wire_messages import WireMessage
from anabranch.errors.arguments import ClientMessageError
from anabranch.spark.served import wire_fields
from anabranch.spark.served.message_kinds import COMMAND, KINDS, RELATION


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def sent(kind: str, held: bytes) -> bytes:
    return field(1, f"type.googleapis.com/delta.connect.{kind}".encode()) + field(2, held)


def test_fields_by_number() -> None:
    entry = field(1, b"fs.key") + field(2, b"v")
    data = varint(3 << 3) + varint(300) + field(1, "é".encode()) + b"\x25\0\0\0\1" + field(2, entry) + field(1, b"last")
    message = WireMessage(data, kind="Scan")
    assert message.numbers() == {1, 2, 3, 4}
    assert message.text(1) == "last"
    assert message.text(9) is None
    assert message.texts_by_name(2) == {"fs.key": "v"}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x0a\x05abc", "goes beyond its end"),
        (b"\x0a", "ends within a number"),
        (b"\x08" + b"\xff" * 11, "has no end"),
        (b"\x0b\x0c", "wire type 3"),
        (b"\x02\x00", "number 0"),
    ],
)
def test_bytes_that_are_no_message(data: bytes, problem: str) -> None:
    with pytest.raises(ClientMessageError, match=problem):
        WireMessage(data, kind="Scan")


def test_numbers() -> None:
    minus_two = varint(2**64 - 2)
    data = varint(1 << 3) + minus_two + varint(2 << 3) + b"\x01" + varint(3 << 3 | 1) + struct.pack("<d", 0.5)
    message = WireMessage(data, kind="VacuumTable")
    assert (message.integer(1), message.flag(2), message.double(3)) == (-2, True, 0.5)
    assert (message.integer(9), message.flag(9), message.double(9)) == (None, None, None)


def test_several_values_in_their_order() -> None:
    message = WireMessage(
        field(2, b"b") + field(2, b"a") + field(3, field(1, b"x")) + field(3, b""), kind="OptimizeTable"
    )
    assert message.texts(2) == ["b", "a"]
    assert [each.text(1) for each in message.messages(3, kind="Assignment")] == ["x", None]
    assert (message.texts(9), message.messages(9, kind="Assignment")) == ([], [])


def test_what_must_be_there() -> None:
    message = WireMessage(field(1, b"") + field(2, b"t"), kind="Generate")
    assert (message.needed(2), message.needed_data(1)) == ("t", b"")
    for read in (message.needed, message.needed_data):
        with pytest.raises(ClientMessageError, match=r"Generate .* field 3"):
            read(3)
    with pytest.raises(ClientMessageError, match="field 1 is empty"):
        message.needed(1)


def test_a_field_of_another_kind() -> None:
    number = WireMessage(b"\x08\x01", kind="Scan")
    for read in (number.text, number.data, number.texts, number.texts_by_name):
        with pytest.raises(ClientMessageError, match="is a number"):
            read(1)
    with pytest.raises(ClientMessageError, match="no floating-point number"):
        number.double(1)
    with pytest.raises(ClientMessageError, match="no whole number"):
        WireMessage(field(1, b"1"), kind="Scan").flag(1)
    with pytest.raises(ClientMessageError, match="UTF-8"):
        WireMessage(field(1, b"\xff"), kind="Scan").text(1)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        message = WireMessage(data, kind="Scan")
    except ClientMessageError:
        return
    assert 0 not in message.numbers()


@given(st.dictionaries(st.integers(1, 1000), st.binary(max_size=300), max_size=5))
def test_what_is_written_is_read(fields: dict[int, bytes]) -> None:
    message = WireMessage(b"".join(field(*each) for each in fields.items()), kind="Scan")
    assert {number: message.data(number) for number in message.numbers()} == fields


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(),
    st.dictionaries(st.text(), st.text(), max_size=3),
)
def test_what_our_client_writes_is_read(whole: int, number: float, word: str, named: dict[str, str]) -> None:
    written = (
        wire_fields.integer(1, whole)
        + wire_fields.double(2, number)
        + wire_fields.texts(300, [word, "", word])
        + wire_fields.texts_by_name(4, named)
        + wire_fields.text(5, None)
        + wire_fields.data(6, wire_fields.integer(1, True))
    )
    message = WireMessage(written, kind="CreateDeltaTable")
    assert (message.integer(1), message.double(2), message.texts(300)) == (whole, number, [word, "", word])
    assert message.texts_by_name(4) == named
    assert message.text(5) is None
    held = message.message(6, kind="Column")
    assert held is not None
    assert held.flag(1)


@pytest.mark.parametrize(
    ("kind", "number", "name"),
    [("DeltaRelation", 1, "Scan"), ("DeltaRelation", 9, "MergeIntoTable"), ("DeltaCommand", 7, "DropFeatureSupport")],
)
def test_what_a_message_holds_is_known_by_name(kind: str, number: int, name: str) -> None:
    message = content_of(sent(kind, field(number, field(1, b"x"))), kind)
    assert (message.kind, message.data(1)) == (name, b"x")


def test_each_kind_has_somebody_who_answers_it() -> None:
    assert list(RELATIONS) == list(KINDS[RELATION])
    assert list(COMMANDS) == list(KINDS[COMMAND])


def test_what_is_unknown_is_refused() -> None:
    for data, problem in [
        (sent("DeltaRelation", field(99, b"")), "nothing that is known"),
        (sent("DeltaCommand", field(1, b"")), "a DeltaRelation was expected"),
        (b"", "without a name"),
    ]:
        with pytest.raises(ClientMessageError, match=problem):
            content_of(data, RELATION)
