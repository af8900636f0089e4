"""Messages of Protocol Buffers, read by the numbers of their fields: no package of messages is needed for that."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.errors.arguments import ClientMessageError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BYTES_MAX = 10
_FIXED = {_FIXED64: 8, _FIXED32: 4}


class WireMessage:
    """The fields of one message, by number. Those that nobody asks for are skipped.

    Raises `ClientMessageError` for bytes that are no message, and for a field that is of another kind than asked.
    """

    def __init__(self, data: bytes, *, kind: str) -> None:
        self._kind = kind
        self._fields: dict[int, list[int | bytes]] = {}
        for number, value in _fields(data, kind):
            self._fields.setdefault(number, []).append(value)

    def numbers(self) -> set[int]:
        """Of the fields that are set."""
        return set(self._fields)

    def data(self, number: int) -> bytes | None:
        """The bytes of a field; None where it is not set. Of several the last one counts."""
        found = self._fields.get(number)
        if found is None:
            return None
        value = found[-1]
        if not isinstance(value, bytes):
            raise ClientMessageError(kind=self._kind, problem=f"field {number} is a number")
        return value

    def text(self, number: int) -> str | None:
        """A field that is text; None where it is not set."""
        data = self.data(number)
        return None if data is None else _decoded(data, self._kind)

    def message(self, number: int, *, kind: str) -> WireMessage | None:
        """A message in a field; None where it is not set."""
        data = self.data(number)
        return None if data is None else WireMessage(data, kind=kind)

    def texts_by_name(self, number: int) -> dict[str, str]:
        """A field that is a map of texts."""
        found = {}
        for data in self._fields.get(number, []):
            if not isinstance(data, bytes):
                raise ClientMessageError(kind=self._kind, problem=f"field {number} is a number")
            entry = WireMessage(data, kind=self._kind)
            found[entry.text(1) or ""] = entry.text(2) or ""
        return found


def _decoded(data: bytes, kind: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ClientMessageError(kind=kind, problem="a text is not UTF-8") from error


def _fields(data: bytes, kind: str) -> Iterator[tuple[int, int | bytes]]:
    place = 0
    while place < len(data):
        tag, place = _varint(data, place, kind)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise ClientMessageError(kind=kind, problem="a field has number 0")
        if wire == _VARINT:
            value, place = _varint(data, place, kind)
            yield number, value
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
        yield number, part if wire == _BYTES else int.from_bytes(part, "little")


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
