"""SQL that a table's metadata holds: constraints, generated columns, defaults.

Whoever can write a table's log decides what stands there, and Spark runs any built-in function for whoever hands it
text, `reflect` among them. So such text never reaches Spark. It is read token by token, every word must be known, and
Spark gets what is put together from the tokens anew, with all names in backticks. A general SQL parser is no
substitute: wherever it and Spark cut a text differently, it would vouch for something that Spark does not see.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import DataType, StructType

from anabranch.errors.constraints import UntrustedExpressionError
from anabranch.predicates.expressions import ColumnPath
from anabranch.predicates.sql_lexer import Token, TokenKind
from anabranch.predicates.stored_sql_bounds import COLUMN_SIZE, Growth, check_arguments, check_operator
from anabranch.predicates.stored_sql_words import (
    CASE_WORDS,
    CASTS,
    CLOCKS,
    CONSTANTS,
    FIELDS,
    FUNCTIONS,
    OPERATORS,
    QUANTIFIERS,
    TAKES_FOR,
    TAKES_FROM,
    TAKES_UNIT_FIRST,
    TRIM_SIDES,
    TYPED_LITERALS,
    UNIT_ALWAYS_FIRST,
    UNITS,
    TypeReader,
    UnreadableTextError,
    tokens_of,
)

TEXT_CHARACTERS_MAX = 1 << 16
NESTING_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredExpression:
    """An expression that may be handed to Spark."""

    text: str
    """As it stands in the metadata, for people."""
    sql: str
    """The same, put together from known words and quoted names."""
    columns: tuple[ColumnPath, ...]
    """What it reads, spelled as in the schema; each once."""
    functions: frozenset[str]
    """Those that it calls, clocks without parentheses included, in lower case."""
    table: str
    owner: str
    """Both for messages."""


def read_stored_sql(text: str, schema: StructType, *, table: str, owner: str) -> StoredExpression:
    """The expression that `text` is, over columns of `schema`.

    `owner` says in messages whose it is. Raises `UntrustedExpressionError` for anything but operators and known
    built-in functions of these columns: no subquery, no other function, no aggregate, no window.
    """
    try:
        if len(text) > TEXT_CHARACTERS_MAX:
            raise UnreadableTextError(f"it is longer than {TEXT_CHARACTERS_MAX} characters")
        reader = _Reader(tokens_of(text), schema)
        reader.read()
        if "${" in "".join(reader.out):
            # Before Spark parses a text it puts settings, system properties and environment variables in such places,
            # also within quotes: a default could carry a secret of this machine into the table.
            raise UnreadableTextError("it holds ${, where Spark would put a variable of the session or the machine")
    except UnreadableTextError as error:
        raise UntrustedExpressionError(
            table=table, owner=owner, expression=text, reason=str(error), function=error.function
        ) from None
    columns = tuple(dict.fromkeys(reader.columns))
    return StoredExpression(
        text=text,
        sql=" ".join(reader.out),
        columns=columns,
        functions=frozenset(reader.functions),
        table=table,
        owner=owner,
    )


class _Reader:
    """Goes through the tokens once and writes down those that are known."""

    def __init__(self, tokens: list[Token], schema: StructType) -> None:
        self._tokens = tokens
        self._schema = schema
        self._at = 0
        self._calls: list[str] = []
        """For every parenthesis that is open, the function it belongs to; empty for none. `[` is `[`."""
        self._growth = Growth()
        self._cases = 0
        self._parameters: set[str] = set()
        """Of lambda functions."""
        self.out: list[str] = []
        self.columns: list[ColumnPath] = []
        self.functions: set[str] = set()

    def read(self) -> None:
        if len(self._tokens) == 1:
            raise UnreadableTextError("it is empty")
        while self._kind(0) is not TokenKind.END:
            self._step()
        if self._calls or self._cases:
            raise UnreadableTextError("it is not complete")

    @property
    def _here(self) -> Token:
        return self._tokens[self._at]

    def _is(self, ahead: int, *texts: str) -> bool:
        """Whether the token so many places ahead is one of these signs."""
        place = self._at + ahead
        return place < len(self._tokens) and any(self._tokens[place].is_symbol(text) for text in texts)

    def _kind(self, ahead: int) -> TokenKind:
        place = self._at + ahead
        return self._tokens[place].kind if place < len(self._tokens) else TokenKind.END

    def _take(self, text: str | None = None) -> None:
        self.out.append(self._here.text if text is None else text)
        if self._here.kind is not TokenKind.SYMBOL:
            self._growth.add(len(self._here.text))
        self._at += 1

    def _step(self) -> None:
        match self._here.kind:
            case TokenKind.STRING:
                if self._is(1, "("):
                    raise UnreadableTextError("text in quotes cannot be called as a function")
                self._take()
            case TokenKind.NUMBER:
                self._take()
            case TokenKind.SYMBOL:
                self._sign()
            case TokenKind.QUOTED_NAME:
                self._name()
            case _:
                self._word()

    def _sign(self) -> None:
        sign = self._here.text
        if sign in "([":
            if len(self._calls) >= NESTING_MAX:
                raise UnreadableTextError(f"it nests deeper than {NESTING_MAX} levels")
            if sign == "(" and self._lambda_parameters():
                return
            self._calls.append("" if sign == "(" else sign)
            self._growth.opened("")
        elif sign in ")]":
            opened = self._calls.pop() if self._calls else None
            if opened is None or (opened == "[") != (sign == "]"):
                raise UnreadableTextError("its parentheses do not match")
            self._growth.closed()
        elif sign == ",":
            self._growth.next_argument()
        elif sign == "||":
            self._growth.check_gathers(sign)
        elif sign == ".":
            self._field()
            return
        elif sign in (":", "=>"):
            raise UnreadableTextError(f"{sign} stands where no operator is")
        elif sign == "->":
            raise UnreadableTextError("-> stands where no function takes a function")
        elif sign == "*" and (not self.out or self.out[-1] in ("(", ",")):
            raise UnreadableTextError("* cannot stand for all columns")
        self._take()
        if sign == "::":
            self._type()

    def _field(self) -> None:
        """A field of what comes before."""
        if self._kind(1) not in (TokenKind.WORD, TokenKind.QUOTED_NAME) or self._is(2, "("):
            raise UnreadableTextError("a dot must stand before the name of a field")
        self._take()
        self._take(_quoted(self._here.name))

    def _lambda_parameters(self) -> bool:
        """`(x, y) ->`"""
        names: list[str] = []
        place = 1
        while self._kind(place) in (TokenKind.WORD, TokenKind.QUOTED_NAME) and self._is(place + 1, ",", ")"):
            names.append(self._tokens[self._at + place].name)
            place += 2
            if self._is(place - 1, ")"):
                break
        if not names or not self._is(place - 1, ")") or not self._is(place, "->"):
            return False
        self._check_takes_function()
        self._parameters |= {name.lower() for name in names}
        self.out.append(f"({', '.join(map(_quoted, names))}) ->")
        self._at += place + 1
        return True

    def _check_takes_function(self) -> None:
        if not self._calls or self._calls[-1] in ("", "["):
            raise UnreadableTextError("-> stands where no function takes a function")

    def _word(self) -> None:
        upper = self._here.word
        context = self._calls[-1] if self._calls else ""
        if self._is_keyword(upper, context):
            check_operator(self._tokens, self._at)
            self._take(upper)
            if upper == "AS":
                self._type()
        elif upper == "INTERVAL" and (self._kind(1) in (TokenKind.STRING, TokenKind.NUMBER) or self._is(1, "-")):
            self._interval()
        elif upper in TYPED_LITERALS and self._kind(1) is TokenKind.STRING:
            self._take(upper)
        elif self._is(1, "("):
            self._call()
        elif upper.lower() in CLOCKS and self._path() is None:
            self.functions.add(upper.lower())
            self._take(upper)
        else:
            self._name()

    def _is_keyword(self, upper: str, context: str) -> bool:
        before = self.out[-1] if self.out else ""
        if upper in CONSTANTS | {"UNKNOWN"}:
            return not self._is(1, "(", ".") and (upper != "UNKNOWN" or before in ("IS", "NOT"))
        if upper in OPERATORS:
            return not self._is(1, ".")
        if upper in CASE_WORDS:
            return self._cases > 0
        if upper in ("CASE", "END"):
            return self._case(upper)
        found = {
            "ESCAPE": self._kind(1) is TokenKind.STRING,
            "DISTINCT": before in ("IS", "NOT"),
            "FROM": before == "DISTINCT" or (context in TAKES_FROM and before not in ("(", ",")),
            "FOR": context in TAKES_FOR,
            "PLACING": context == "overlay",
            "AS": context in CASTS,
        }
        if upper in found:
            return found[upper]
        if upper in QUANTIFIERS:
            return before in ("LIKE", "ILIKE") and self._is(1, "(")
        first = before == "(" and bool(context) and not self._is(1, ".", "(")
        return first and (
            (upper in TRIM_SIDES and context == "trim")
            or (upper in FIELDS and context in TAKES_UNIT_FIRST and self._unit_follows(context))
        )

    def _unit_follows(self, context: str) -> bool:
        """Whether what follows shows that this is a unit and no column of its name."""
        if context == "extract":
            return self._tokens[self._at + 1].word == "FROM"
        if not self._is(1, ",") or self._here.word not in UNITS:
            return False
        return context in UNIT_ALWAYS_FIRST or self._path() is None

    def _case(self, upper: str) -> bool:
        if upper == "CASE":
            opens = not self._is(1, ".", ",", ")", "]") and self._kind(1) is not TokenKind.END
            self._cases += opens
            return opens
        ends = self._cases > 0
        self._cases -= ends
        return ends

    def _call(self) -> None:
        name = self._here.text.lower()
        if name not in FUNCTIONS:
            raise UnreadableTextError(
                f"{self._here.text}(…) is not among the functions that a table may call", function=name
            )
        self.functions.add(name)
        length = check_arguments(self._tokens, self._at + 1, name)
        self._take(name)
        # With the function before it, the parenthesis cannot begin the parameters of a lambda.
        if len(self._calls) >= NESTING_MAX:
            raise UnreadableTextError(f"it nests deeper than {NESTING_MAX} levels")
        self._calls.append(name)
        self._take()
        self._growth.opened(name)
        self._growth.length(length)

    def _interval(self) -> None:
        self._take("INTERVAL")
        while True:
            if self._is(0, "-"):
                self._take()
            if self._kind(0) not in (TokenKind.STRING, TokenKind.NUMBER):
                return
            self._take()
            while self._here.kind is TokenKind.WORD and self._here.word in UNITS | {"TO"}:
                self._take(self._here.word)
            if self._kind(0) not in (TokenKind.STRING, TokenKind.NUMBER):
                return

    def _type(self) -> None:
        reader = TypeReader(self._tokens, self._at)
        self.out.append(reader.read())
        self._at = reader.at

    def _name(self) -> None:
        """A column with its fields, or a parameter."""
        if self._is(1, "("):
            raise UnreadableTextError("a name in backticks cannot be called as a function")
        if self._is(1, "->"):
            self._check_takes_function()
            self._parameters.add(self._here.name.lower())
            self.out.append(f"{_quoted(self._here.name)} ->")
            self._at += 2
            return
        path = self._path()
        self._growth.add(COLUMN_SIZE)
        if path is not None:
            self.columns.append(path)
        elif not self._is_parameter():
            raise UnreadableTextError(f"{self._here.text} is no column of the table and no word that a table may use")
        self._take(_quoted(self._here.name))

    def _is_parameter(self) -> bool:
        return self._here.name.lower() in self._parameters

    def _path(self) -> ColumnPath | None:
        """The column that begins here, as far down as structs go, in the schema's spelling.

        For a parameter that hides a column this is the column: read or not, the expression names it.
        """
        found: list[str] = []
        below: DataType = self._schema
        place = 0
        while isinstance(below, StructType):
            spelled = _spelled(below, self._tokens[self._at + place].name)
            if spelled is None:
                if found and not self._is_parameter():
                    missing = self._tokens[self._at + place].name
                    raise UnreadableTextError(f"{'.'.join(found)} has no field {missing}")
                return None
            found.append(spelled)
            below = below[spelled].dataType
            if not self._is(place + 1, ".") or self._kind(place + 2) not in (TokenKind.WORD, TokenKind.QUOTED_NAME):
                break
            place += 2
        return tuple(found)


def _spelled(struct: StructType, name: str) -> str | None:
    if name in struct.names:
        return name
    return next((known for known in struct.names if known.lower() == name.lower()), None)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
