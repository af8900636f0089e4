"""Regular expressions in a table's metadata: none whose matching may take longer than the world lasts.

Java's engine tries every way in which a repetition can be cut into its rounds. Where a round can end in several
places, that are exponentially many ways. So what is repeated must be of fixed form, or have a sign in it that shows
where each round ends.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from anabranch.predicates.stored_sql_words import UnreadableTextError

REPETITIONS_MAX = 10
"""Of open end, in one pattern: every one of them may multiply the time by the length of the text."""
_ROUNDS_MAX = 10
"""Of a group that is repeated so often at most, all ways can be tried."""
_QUANTIFIER = re.compile(r"(?:([*+?])|\{(\d+)(,)?(\d*)\})[+?]?")
_GROUP_HEAD = re.compile(r"\?(?::|=|!|<=|<!|>|<[A-Za-z]\w*>|[ims]+(?:-[ims]+)?:)")
_FLAGS = re.compile(r"\(\?[ims]+(?:-[ims]+)?\)")
_KINDS = {"d": str.isdigit, "w": lambda sign: sign.isalnum() or sign == "_", "s": str.isspace}


@dataclass(frozen=True, slots=True)
class _Atom:
    """One thing that matches, and how often it may."""

    sign: str | None = None
    """For a sign that stands for itself."""
    text: str = ""
    """The source of a class, an escape or a dot."""
    group: tuple[tuple[_Atom, ...], ...] = ()
    """The alternatives of a group."""
    least: int = 1
    most: float = 1

    def may_match(self, sign: str) -> bool:
        """False only where it surely does not."""
        if self.group:
            return any(atom.may_match(sign) for alternative in self.group for atom in alternative)
        if self.sign is not None:
            return self.sign.lower() == sign.lower()
        if self.text.startswith("["):
            return _class_may_match(self.text[1:-1], sign)
        kind = _KINDS.get(self.text[1:])
        return kind is None or kind(sign)

    @property
    def varies(self) -> bool:
        """Whether it can match texts of different length."""
        return (
            self.least != self.most or any(atom.varies for each in self.group for atom in each) or len(self.group) > 1
        )


def check_pattern(pattern: str) -> None:
    """Raises `UnreadableTextError` where matching `pattern` may take exponential time, or that cannot be told."""
    reader = _PatternReader(_FLAGS.sub("", pattern))
    alternatives = reader.read()
    if reader.open_repetitions > REPETITIONS_MAX:
        raise UnreadableTextError(f"a regular expression in it has more than {REPETITIONS_MAX} repetitions")
    _check(alternatives)


def _check(alternatives: tuple[tuple[_Atom, ...], ...]) -> None:
    for alternative in alternatives:
        for atom in alternative:
            if atom.group:
                if atom.most > _ROUNDS_MAX and _is_ambiguous(atom.group):
                    problem = "a regular expression in it repeats a group whose rounds may end in several places"
                    raise UnreadableTextError(f"{problem}, which can take exponential time")
                _check(atom.group)


def _is_ambiguous(alternatives: tuple[tuple[_Atom, ...], ...]) -> bool:
    firsts = [each[0].sign.lower() for each in alternatives if each and each[0].sign and each[0].least == 1]
    if len(alternatives) > 1 and len(set(firsts)) < len(alternatives):
        return True
    atoms = [atom for each in alternatives for atom in each]
    return any(
        any(atom.varies for atom in each) and not any(_ends_a_round(atom, atoms) for atom in each)
        for each in alternatives
    )


def _ends_a_round(atom: _Atom, atoms: list[_Atom]) -> bool:
    """Whether this is a sign that stands in each round once, and that nothing else there can match."""
    if atom.sign is None or (atom.least, atom.most) != (1, 1):
        return False
    return not any(other is not atom and other.may_match(atom.sign) for other in atoms)


def _class_may_match(content: str, sign: str) -> bool:
    if "&&" in content or "[" in content or re.search(r"\\[^\\.\-\]\[^$*+?(){}|/dws]", content):
        return True
    negated = content.startswith("^")
    plain = re.sub(r"\\[dws]", "", content[negated:])
    if negated:
        # A sign that is listed by itself is surely left out; of anything else it may well match.
        return sign not in re.sub(r"\\(.)", r"\1", re.sub(r"\\?.-\\?.", "", plain))
    if any(_KINDS[kind](sign) for kind in re.findall(r"\\([dws])", content)):
        return True
    ranges = re.findall(r"(\\?.)-(\\?.)", plain)
    return sign.lower() in plain.lower() or any(
        low[-1] <= each <= high[-1] for low, high in ranges for each in (sign, sign.lower(), sign.upper())
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
        found: list[list[_Atom]] = [[]]
        while self.at < len(self.pattern) and self.pattern[self.at] != ")":
            if self.pattern[self.at] == "|":
                self.at += 1
                found.append([])
                continue
            atom = self._atom()
            if atom is not None:
                found[-1].append(self._quantified(atom))
        return tuple(tuple(each) for each in found)

    def _atom(self) -> _Atom | None:
        start, sign = self.at, self.pattern[self.at]
        self.at += 1
        match sign:
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
                return _Atom(sign=sign)

    def _group(self) -> _Atom:
        self.depth += 1
        head = _GROUP_HEAD.match(self.pattern, self.at)
        if (head is None and self.pattern.startswith("?", self.at)) or self.depth > 50:
            raise UnreadableTextError("a regular expression in it has a group of a kind that is not known")
        self.at = head.end() if head else self.at
        alternatives = self._alternatives()
        if not self.pattern.startswith(")", self.at):
            raise UnreadableTextError("a regular expression in it has parentheses that do not match")
        self.at += 1
        self.depth -= 1
        return _Atom(group=alternatives)

    def _class(self, start: int) -> str:
        level, place = 1, start + 1
        place += self.pattern.startswith("^", place)
        place += self.pattern.startswith("]", place)
        while place < len(self.pattern) and level:
            sign = self.pattern[place]
            place += 2 if sign == "\\" else 1
            level += (sign == "[") - (sign == "]")
        if level:
            raise UnreadableTextError("a regular expression in it has a bracket that is not closed")
        self.at = place
        return self.pattern[start:place]

    def _escape(self) -> _Atom | None:
        sign = self.pattern[self.at : self.at + 1]
        self.at += 1
        if not sign or sign.isdigit() or sign in "kQE":
            raise UnreadableTextError("a regular expression in it refers back, or quotes, which is not allowed")
        if sign in "bBAzZG":
            return None
        if sign.isalnum():
            return _Atom(text=f"\\{sign}")
        return _Atom(sign=sign)

    def _quantified(self, atom: _Atom) -> _Atom:
        match = _QUANTIFIER.match(self.pattern, self.at)
        if match is None:
            return atom
        self.at = match.end()
        least, most = _bounds(match)
        self.open_repetitions += most == float("inf")
        return _Atom(sign=atom.sign, text=atom.text, group=atom.group, least=least, most=most)


def _bounds(match: re.Match[str]) -> tuple[int, float]:
    if match[1]:
        return {"*": (0, float("inf")), "+": (1, float("inf")), "?": (0, 1)}[match[1]]
    least = int(match[2])
    if not match[3]:
        return least, least
    return least, int(match[4]) if match[4] else float("inf")
