"""Names of tables as users write them: `t`, `schema.t`, delta.`/path`, with or without `@v3`."""

from __future__ import annotations

import dataclasses
import re

from anabranch.errors.tables import InvalidIdentifierError
from anabranch.schema.paths import quote

PATH_SCHEMA = "delta"
_PART = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^\s`.]+))\s*(\.|$)")
_ABSOLUTE = re.compile(r"^(/|[A-Za-z][A-Za-z0-9+.-]*:)")


@dataclasses.dataclass(frozen=True, slots=True)
class PathIdentifier:
    """A table named by its folder."""

    path: str

    def __str__(self) -> str:
        return f"{PATH_SCHEMA}.{quote(self.path)}"


@dataclasses.dataclass(frozen=True, slots=True)
class NameIdentifier:
    """A table named by one to three parts of its name in the catalog."""

    parts: tuple[str, ...]

    @property
    def quoted(self) -> str:
        """Every part in backticks, safe to put into SQL."""
        return ".".join(quote(part) for part in self.parts)

    def __str__(self) -> str:
        return ".".join(part if part.isidentifier() else quote(part) for part in self.parts)


TableIdentifier = PathIdentifier | NameIdentifier


def is_absolute_path(text: str) -> bool:
    """Whether `text` is a path from the root of a storage, which no table name is."""
    return _ABSOLUTE.match(text) is not None


def parse_identifier(text: str) -> TableIdentifier:
    """The table that `text` names. Raises `InvalidIdentifierError`."""
    return identifier_of(split_identifier(text))


def identifier_of(parts: tuple[str, ...]) -> TableIdentifier:
    """The table that unquoted name parts name; delta.`/absolute/path` is a path."""
    if len(parts) == 2 and parts[0].lower() == PATH_SCHEMA and is_absolute_path(parts[1]):
        return PathIdentifier(parts[1])
    if len(parts) > 3:
        raise InvalidIdentifierError(identifier=".".join(parts), problem=f"it has {len(parts)} parts")
    return NameIdentifier(parts)


def split_identifier(text: str) -> tuple[str, ...]:
    """The parts of a name without their quotes. Raises `InvalidIdentifierError`."""
    parts: list[str] = []
    position = 0
    while True:
        match = _PART.match(text, position)
        if match is None:
            raise InvalidIdentifierError(
                identifier=text, problem=f"it cannot be parsed from character {position + 1} on"
            )
        quoted, plain, end = match.groups()
        parts.append(plain if quoted is None else quoted.replace("``", "`"))
        if not parts[-1]:
            raise InvalidIdentifierError(identifier=text, problem="a part of it is empty")
        position = match.end()
        if not end:
            return tuple(parts)
