"""What a string of SQL means, and values as SQL that can mean nothing else."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([01][0-7]{2})|(.))|(['\"])\5", re.DOTALL)
_SPECIAL = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_PLAIN = re.compile(r"[\w .,;:/@#+*=()<>!?&|~^\[\]%-]*")
_RAW = ("r'", 'r"')


def string_value(written: str) -> str:
    """The text that a string literal stands for."""
    if written[:2].lower() in _RAW:
        return written[2:-1]
    if written.startswith("$"):
        tag = written.index("$", 1) + 1
        return written[tag:-tag]
    quote = written[0]

    def meaning(match: re.Match[str]) -> str:
        short, long, octal, plain, doubled = match.groups()
        if doubled:
            # The other kind of quote is an ordinary character here.
            return doubled if doubled == quote else doubled * 2
        if octal:
            return chr(int(octal, 8))
        if short or long:
            return _character(int(short or long, 16))
        return _SPECIAL.get(plain, plain)

    found = _ESCAPE.sub(meaning, written[1:-1])
    # Two escapes may be the halves of one character, as Java counts them.
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def string_literal(text: str) -> str:
    """SQL that means exactly `text`, whatever the session's settings say about escapes and variables."""
    if _PLAIN.fullmatch(text) and text.isascii():
        return f"'{text}'"
    return f"CAST(X'{text.encode().hex()}' AS STRING)"


def _character(code: int) -> str:
    return chr(code) if code <= 0x10FFFF else "\ufffd"
