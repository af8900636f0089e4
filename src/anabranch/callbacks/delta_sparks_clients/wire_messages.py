"""Messages of Protocol Buffers, read by the numbers of their fields: no package of messages is needed for that."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from anabranch.errors.arguments import ClientMessageError

_T = TypeVar("_T")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BYTES_MAX = 10
_FIXED = {_FIXED64: 8, _FIXED32: 4}


@dataclass(frozen=True, slots=True)
class _Field:
    wire: int
    value: int | bytes
    """Of a field of fixed size its bits, as a number without a sign."""


class WireMessage:
    """The fields of one message, by number. Those that nobody asks for are skipped.

    A field that is not set is None, or an empty list where there may be several; of several where there is to be one,
    the last one counts. Raises `ClientMessageError` for bytes that are no message, and for a field that is of another
    kind than asked.
    """

    def __init__(self, data: bytes, *, kind: str) -> None:
        self.kind = kind
        self._fields: dict[int, list[_Field]] = {}
        for number, found in _fields(data, kind):
            self._fields.setdefault(number, []).append(found)

    def numbers(self) -> set[int]:
        """Of the fields that are set."""
        return set(self._fields)

    def data(self, number: int) -> bytes | None:
        """The bytes of a field."""
        return _last(self.each(number))

    def each(self, number: int) -> list[bytes]:
        """The bytes of a field that there may be several of."""
        return [value for value in self._values(number, _BYTES, "a number") if isinstance(value, bytes)]

    def text(self, number: int) -> str | None:
        """A field that is text."""
        return _last(self.texts(number))

    def texts(self, number: int) -> list[str]:
        """A field that is any number of texts."""
        return [_decoded(data, self.kind) for data in self.each(number)]

    def needed(self, number: int) -> str:
        """A text that must not be empty. Raises `ClientMessageError`."""
        found = self.text(number)
        if not found:
            raise ClientMessageError(kind=self.kind, problem=f"field {number} is empty")
        return found

    def needed_data(self, number: int) -> bytes:
        """The bytes of a field that must be set. Raises `ClientMessageError`."""
        found = self.data(number)
        if found is None:
            raise ClientMessageError(kind=self.kind, problem=f"field {number} is not set")
        return found

    def integer(self, number: int) -> int | None:
        """A field that is a whole number, of 32 or 64 bits with a sign."""
        found = _last(self._values(number, _VARINT, "no whole number"))
        assert not isinstance(found, bytes)
        return None if found is None else found - 2**64 if found >= 2**63 else found

    def flag(self, number: int) -> bool | None:
        """A field that is true or false."""
        found = self.integer(number)
        return None if found is None else found != 0

    def double(self, number: int) -> float | None:
        """A field that is a floating-point number of 64 bits."""
        found = _last(self._values(number, _FIXED64, "no floating-point number"))
        assert not isinstance(found, bytes)
        return None if found is None else float(struct.unpack("<d", found.to_bytes(8, "little"))[0])

    def message(self, number: int, *, kind: str) -> WireMessage | None:
        """A message in a field."""
        return _last(self.messages(number, kind=kind))

    def messages(self, number: int, *, kind: str) -> list[WireMessage]:
        """A field that is any number of messages."""
        return [WireMessage(data, kind=kind) for data in self.each(number)]

    def texts_by_name(self, number: int) -> dict[str, str]:
        """A field that is a map of texts."""
        return {entry.text(1) or "": entry.text(2) or "" for entry in self.messages(number, kind=self.kind)}

    def _values(self, number: int, wire: int, otherwise: str) -> list[int | bytes]:
        found = self._fields.get(number, [])
        if any(each.wire != wire for each in found):
            raise ClientMessageError(kind=self.kind, problem=f"field {number} is {otherwise}")
        return [each.value for each in found]


def _last(found: Sequence[_T]) -> _T | None:
    return found[-1] if found else None


def _decoded(data: bytes, kind: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ClientMessageError(kind=kind, problem="a text is not UTF-8") from error


def _fields(data: bytes, kind: str) -> Iterator[tuple[int, _Field]]:
    place = 0
    while place < len(data):
        tag, place = _varint(data, place, kind)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise ClientMessageError(kind=kind, problem="a field has number 0")
        if wire == _VARINT:
            value, place = _varint(data, place, kind)
            yield number, _Field(wire, value)
            continue
        if wire == _BYTES:
            length, place = _varint(data, place, kind)
        elif wire in _FIXED:
            length = _FIXED[wire]
        else:
            raise ClientMessageError(kind=kind, problem=f"field {number} is of wire type {wire}")
        end = place + length
        if end > len(data):
            raise ClientMessageError(kind=kind, problem=f"field {number} goes beyond its end")
        part = data[place:end]
        place = end
        yield number, _Field(wire, part if wire == _BYTES else int.from_bytes(part, "little"))


def _varint(data: bytes, place: int, kind: str) -> tuple[int, int]:
    value = 0
    for count in range(_VARINT_BYTES_MAX):
        if place + count >= len(data):
            raise ClientMessageError(kind=kind, problem="it ends within a number")
        byte = data[place + count]
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value & (2**64 - 1), place + count + 1
    raise ClientMessageError(kind=kind, problem="a number has no end")
