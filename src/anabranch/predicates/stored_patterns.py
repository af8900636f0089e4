"""Regular expressions in a table's metadata. Those whose matching may in practice never end are refused.

Java's engine tries every way to divide a text among the iterations of a repetition. Where an iteration can end at
several positions, the number of ways is exponential. So a repeated group must match texts of one length only, or
contain a character that marks the end of each iteration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from anabranch.predicates.stored_sql_tokens import UnreadableTextError

REPETITIONS_MAX = 10
"""The unbounded repetitions that one pattern may have: each may multiply the time by the length of the text."""
_ITERATIONS_MAX = 10
"""A group that is repeated this often or less may be ambiguous: all ways can be tried."""
_QUANTIFIER = re.compile(r"(?:([*+?])|\{(\d+)(,)?(\d*)\})[+?]?")
_GROUP_PREFIX = re.compile(r"\?(?::|=|!|<=|<!|>|<[A-Za-z]\w*>|[ims]+(?:-[ims]+)?:)")
_FLAGS = re.compile(r"\(\?[ims]+(?:-[ims]+)?\)")
_KINDS = {"d": str.isdigit, "w": lambda character: character.isalnum() or character == "_", "s": str.isspace}


@dataclass(frozen=True, slots=True)
class _Atom:
    """A character, class or group of a pattern, with how often it is repeated."""

    character: str | None = None
    """A character that matches itself."""
    text: str = ""
    """The source of a class, an escape or a dot."""
    group: tuple[tuple[_Atom, ...], ...] = ()
    """The alternatives of a group."""
    least: int = 1
    most: float = 1

    def may_match(self, character: str) -> bool:
        """False only where the atom certainly does not match the character."""
        if self.group:
            return any(atom.may_match(character) for alternative in self.group for atom in alternative)
        if self.character is not None:
            return self.character.lower() == character.lower()
        if self.text.startswith("["):
            return _class_may_match(self.text[1:-1], character)
        kind = _KINDS.get(self.text[1:])
        return kind is None or kind(character)

    @property
    def varies(self) -> bool:
        """Whether it can match texts of different length."""
        return (
            self.least != self.most
            or any(atom.varies for alternative in self.group for atom in alternative)
            or len(self.group) > 1
        )


def check_pattern(pattern: str) -> None:
    """Raises `UnreadableTextError` where matching `pattern` takes, or may take, exponential time."""
    reader = _PatternReader(_FLAGS.sub("", pattern))
    alternatives = reader.read()
    if reader.open_repetitions > REPETITIONS_MAX:
        raise UnreadableTextError(f"a regular expression in it has more than {REPETITIONS_MAX} repetitions")
    _check(alternatives)


def _check(alternatives: tuple[tuple[_Atom, ...], ...]) -> None:
    for alternative in alternatives:
        for atom in alternative:
            if atom.group:
                if atom.most > _ITERATIONS_MAX and _is_ambiguous(atom.group):
                    problem = "a regular expression in it repeats a group whose iterations may end at several positions"
                    raise UnreadableTextError(f"{problem}, which can take exponential time")
                _check(atom.group)


def _is_ambiguous(alternatives: tuple[tuple[_Atom, ...], ...]) -> bool:
    firsts = [
        alternative[0].character.lower()
        for alternative in alternatives
        if alternative and alternative[0].character and alternative[0].least == 1
    ]
    if len(alternatives) > 1 and len(set(firsts)) < len(alternatives):
        return True
    atoms = [atom for alternative in alternatives for atom in alternative]
    return any(
        any(atom.varies for atom in alternative) and not any(_delimits_iterations(atom, atoms) for atom in alternative)
        for alternative in alternatives
    )


def _delimits_iterations(atom: _Atom, atoms: list[_Atom]) -> bool:
    """Whether each iteration has this character exactly once, and no other atom of the group can match it."""
    if atom.character is None or (atom.least, atom.most) != (1, 1):
        return False
    return not any(other is not atom and other.may_match(atom.character) for other in atoms)


def _class_may_match(content: str, character: str) -> bool:
    if "&&" in content or "[" in content or re.search(r"\\[^\\.\-\]\[^$*+?(){}|/dws]", content):
        return True
    negated = content.startswith("^")
    plain = re.sub(r"\\[dws]", "", content[negated:])
    if negated:
        # A character that is listed by itself is certainly excluded; any other may match.
        return character not in re.sub(r"\\(.)", r"\1", re.sub(r"\\?.-\\?.", "", plain))
    if any(_KINDS[kind](character) for kind in re.findall(r"\\([dws])", content)):
        return True
    ranges = re.findall(r"(\\?.)-(\\?.)", plain)
    return character.lower() in plain.lower() or any(
        low[-1] <= variant <= high[-1]
        for low, high in ranges
        for variant in (character, character.lower(), character.upper())
    )


@dataclass(slots=True)
class _PatternReader:
    pattern: str
    at: int = 0
    open_repetitions: int = 0
    depth: int = field(default=0)

    def read(self) -> tuple[tuple[_Atom, ...], ...]:
        alternatives = self._alternatives()
        if self.at < len(self.pattern):
            raise UnreadableTextError("a regular expression in it has parentheses that do not match")
        return alternatives

    def _alternatives(self) -> tuple[tuple[_Atom, ...], ...]:
        alternatives: list[list[_Atom]] = [[]]
        while self.at < len(self.pattern) and self.pattern[self.at] != ")":
            if self.pattern[self.at] == "|":
                self.at += 1
                alternatives.append([])
                continue
            atom = self._atom()
            if atom is not None:
                alternatives[-1].append(self._quantified(atom))
        return tuple(tuple(alternative) for alternative in alternatives)

    def _atom(self) -> _Atom | None:
        start, character = self.at, self.pattern[self.at]
        self.at += 1
        match character:
            case "^" | "$":
                return None
            case "(":
                return self._group()
            case "[":
                return _Atom(text=self._class(start))
            case "\\":
                return self._escape()
            case ".":
                return _Atom(text=".")
            case _:
                return _Atom(character=character)

    def _group(self) -> _Atom:
        self.depth += 1
        prefix = _GROUP_PREFIX.match(self.pattern, self.at)
        if (prefix is None and self.pattern.startswith("?", self.at)) or self.depth > 50:
            raise UnreadableTextError("a regular expression in it has a group of an unsupported kind")
        self.at = prefix.end() if prefix else self.at
        alternatives = self._alternatives()
        if not self.pattern.startswith(")", self.at):
            raise UnreadableTextError("a regular expression in it has parentheses that do not match")
        self.at += 1
        self.depth -= 1
        return _Atom(group=alternatives)

    def _class(self, start: int) -> str:
        level, end = 1, start + 1
        end += self.pattern.startswith("^", end)
        end += self.pattern.startswith("]", end)
        while end < len(self.pattern) and level:
            character = self.pattern[end]
            end += 2 if character == "\\" else 1
            level += (character == "[") - (character == "]")
        if level:
            raise UnreadableTextError("a regular expression in it has a bracket that is not closed")
        self.at = end
        return self.pattern[start:end]

    def _escape(self) -> _Atom | None:
        character = self.pattern[self.at : self.at + 1]
        self.at += 1
        if not character or character.isdigit() or character in "kQE":
            raise UnreadableTextError("a regular expression in it refers back, or quotes, which is not allowed")
        if character in "bBAzZG":
            return None
        if character.isalnum():
            return _Atom(text=f"\\{character}")
        return _Atom(character=character)

    def _quantified(self, atom: _Atom) -> _Atom:
        match = _QUANTIFIER.match(self.pattern, self.at)
        if match is None:
            return atom
        self.at = match.end()
        least, most = _bounds(match)
        self.open_repetitions += most == float("inf")
        return _Atom(character=atom.character, text=atom.text, group=atom.group, least=least, most=most)


def _bounds(match: re.Match[str]) -> tuple[int, float]:
    if match[1]:
        return {"*": (0, float("inf")), "+": (1, float("inf")), "?": (0, 1)}[match[1]]
    least = int(match[2])
    if not match[3]:
        return least, least
    return least, int(match[4]) if match[4] else float("inf")
