"""Reading a condition token by token."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.predicates.sql_nodes import ConditionSyntaxError, Node, Operation, Other
from anabranch.predicates.sql_tokens import Token, TokenKind, tokenize


class TokenReader:
    """A place in the tokens of one text. Where it cannot take what it should, it raises `ConditionSyntaxError`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: Sequence[Token] = tokenize(text)
        self._at = 0
        if self._tokens and self._tokens[-1].kind is TokenKind.UNFINISHED:
            raise ConditionSyntaxError("a string, a name or a comment in it does not end", self._tokens[-1].start)

    def _peek(self, ahead: int = 0) -> Token | None:
        place = self._at + ahead
        return self._tokens[place] if 0 <= place < len(self._tokens) else None

    def _word(self, ahead: int = 0) -> str:
        token = self._peek(ahead)
        return "" if token is None else token.word

    def _sees_symbol(self, text: str, ahead: int = 0) -> bool:
        token = self._peek(ahead)
        return token is not None and token.is_symbol(text)

    def _takes_symbol(self, text: str) -> bool:
        found = self._sees_symbol(text)
        self._at += found
        return found

    def _takes(self, *words: str) -> bool:
        found = all(self._word(ahead) == word for ahead, word in enumerate(words))
        self._at += len(words) * found
        return found

    def _expect_symbol(self, text: str) -> None:
        if not self._takes_symbol(text):
            raise self._unexpected()

    def _unexpected(self) -> ConditionSyntaxError:
        token = self._peek()
        if token is None:
            return ConditionSyntaxError("the condition is not complete", max(len(self._text) - 1, 0))
        return ConditionSyntaxError(f"a condition does not go on like this at {token.text[:40]!r}", token.start)

    @property
    def _end(self) -> int:
        """Of what was taken last."""
        return self._tokens[self._at - 1].end

    def _start(self) -> int:
        token = self._peek()
        return len(self._text) if token is None else token.start

    def _skip_parenthesized(self) -> None:
        depth = 0
        while (token := self._peek()) is not None:
            self._at += 1
            depth += token.is_symbol("(") - token.is_symbol(")")
            if depth == 0:
                return
        raise self._unexpected()

    def _operation(self, operator: str, *operands: Node) -> Operation:
        return Operation(start=operands[0].start, end=self._end, operator=operator, operands=operands)

    def _other(self, *operands: Node) -> Other:
        return Other(start=operands[0].start, end=self._end, operands=operands)
