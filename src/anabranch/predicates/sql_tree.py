"""Conditions in SQL as trees, by the precedence of Spark's grammar."""

from __future__ import annotations

from anabranch.predicates.sql_lexer import TokenKind
from anabranch.predicates.sql_nodes import ConditionSyntaxError, Node, Operation, Other
from anabranch.predicates.sql_operands import OperandReader

NESTING_MAX = 100

_COMPARISONS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<=>": "<=>"}
_COMPARISONS |= {"!>": "<=", "!<": ">="}
_ARITHMETIC = ({"|"}, {"^"}, {"&"}, {"<<", ">>", ">>>"}, {"+", "-", "||"}, {"*", "/", "%"})
"""What binds weakest first; `DIV` is with the last."""
_PRECEDENCE = {symbol: place for place, symbols in enumerate(_ARITHMETIC, start=1) for symbol in symbols}


def parse_condition(text: str) -> Node:
    """The tree of `text`. Raises `ConditionSyntaxError`."""
    return _Parser(text).whole()


class _Parser(OperandReader):
    """From what binds weakest to what binds strongest."""

    def whole(self) -> Node:
        found = self._condition()
        while self._takes_symbol(";"):
            pass
        if self._at < len(self._tokens):
            raise self._unexpected()
        return found

    def _condition(self) -> Node:
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise ConditionSyntaxError(f"its parentheses nest deeper than {NESTING_MAX} levels", self._start())
        any_of = []
        while True:
            all_of = [self._negated()]
            while self._takes("AND"):
                all_of.append(self._negated())
            any_of.append(_joined("AND", all_of))
            if not self._takes("OR"):
                self._depth -= 1
                return _joined("OR", any_of)

    def _negated(self) -> Node:
        """Twice NOT is no NOT, also of NULL."""
        start, is_negated = self._start(), False
        while self._takes("NOT") or self._takes_symbol("!"):
            is_negated = not is_negated
        found = self._predicated()
        return Operation(start=start, end=self._end, operator="NOT", operands=(found,)) if is_negated else found

    def _predicated(self) -> Node:
        subject = self._comparison()
        place = self._at
        is_negated = self._takes("NOT")
        found = self._predicate(subject)
        if found is None:
            self._at = place
            return subject
        if is_negated:
            return Operation(start=subject.start, end=self._end, operator="NOT", operands=(found,))
        return found

    def _predicate(self, subject: Node) -> Node | None:
        """What IN, BETWEEN, LIKE or IS say of the subject."""
        if self._takes("IN"):
            return self._membership(subject)
        if self._takes("BETWEEN"):
            low = self._comparison()
            if not self._takes("AND"):
                raise self._unexpected()
            return self._operation("BETWEEN", subject, low, self._comparison())
        if self._takes("IS"):
            return self._identity(subject)
        word = self._word()
        if word in {"LIKE", "ILIKE", "RLIKE", "REGEXP"}:
            self._at += 1
            if self._word() in {"ANY", "SOME", "ALL"} and self._sees_symbol("(", 1):
                self._at += 1
                return self._other(subject, *self._listed())
            pattern = self._comparison()
            if self._takes("ESCAPE"):
                return self._other(subject, pattern, self._comparison())
            return self._operation(word, subject, pattern)
        return None

    def _membership(self, subject: Node) -> Node:
        if not self._sees_symbol("("):
            raise self._unexpected()
        if self._sees_query(1):
            return self._operation("IN", subject, self._parenthesized_query())
        values = self._listed()
        if not values:
            raise self._unexpected()
        return self._operation("IN", subject, *values)

    def _identity(self, subject: Node) -> Node:
        is_negated = self._takes("NOT")
        if self._takes("DISTINCT", "FROM"):
            found: Node = self._operation("<=>", subject, self._comparison())
            is_negated = not is_negated
        elif (word := self._word()) in {"NULL", "TRUE", "FALSE", "UNKNOWN"}:
            self._at += 1
            found = self._operation(f"IS {word}", subject)
        else:
            raise self._unexpected()
        return self._operation("NOT", found) if is_negated else found

    def _comparison(self) -> Node:
        left = self._arithmetic(1)
        while (operator := self._comparison_operator()) is not None:
            left = self._operation(operator, left, self._arithmetic(1))
        return left

    def _comparison_operator(self) -> str | None:
        token = self._peek()
        if token is None or token.kind is not TokenKind.SYMBOL or token.text not in _COMPARISONS:
            return None
        self._at += 1
        return _COMPARISONS[token.text]

    def _arithmetic(self, weakest: int) -> Node:
        left = self._signed()
        while (precedence := self._precedence()) >= weakest:
            self._at += 1
            left = self._other(left, self._arithmetic(precedence + 1))
        return left

    def _precedence(self) -> int:
        token = self._peek()
        if token is None:
            return 0
        if token.kind is TokenKind.SYMBOL:
            return _PRECEDENCE.get(token.text, 0)
        return len(_ARITHMETIC) if token.word == "DIV" else 0

    def _signed(self) -> Node:
        start, signs = self._start(), []
        while (token := self._peek()) is not None and token.kind is TokenKind.SYMBOL and token.text in "+-~":
            signs.append(token.text)
            self._at += 1
        found = self._operand()
        if not signs:
            return found
        if set(signs) == {"-"}:
            is_minus = len(signs) % 2
            return Operation(start=start, end=self._end, operator="-", operands=(found,)) if is_minus else found
        return Other(start=start, end=self._end, operands=(found,))


def _joined(operator: str, operands: list[Node]) -> Node:
    if len(operands) == 1:
        return operands[0]
    return Operation(start=operands[0].start, end=operands[-1].end, operator=operator, operands=tuple(operands))
