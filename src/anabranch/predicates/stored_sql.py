"""SQL that a table's metadata holds: constraints, generated columns, defaults.

Anybody who can write a table's log decides what this SQL is, and Spark runs any built-in function in it, such as
`reflect`. So the text never reaches Spark. It is read token by token, every word must be an allowed one, and Spark gets
a text rebuilt from the tokens, with all names in backticks. A general SQL parser is no substitute: where it and Spark
tokenize a text differently, it would check something else than Spark executes.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import DataType, StructType

from anabranch.errors.constraints import UntrustedExpressionError
from anabranch.predicates.expressions import ColumnPath
from anabranch.predicates.sql_lexer import Token, TokenKind
from anabranch.predicates.stored_sql_bounds import COLUMN_SIZE, SizeEstimate, check_arguments, check_operator
from anabranch.predicates.stored_sql_tokens import UnreadableTextError, tokens_of
from anabranch.predicates.stored_sql_types import TypeReader
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
)

TEXT_CHARACTERS_MAX = 1 << 16
NESTING_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredExpression:
    """An expression that is safe to hand to Spark."""

    text: str
    """The expression as in the metadata, for messages."""
    sql: str
    """The same, rebuilt from allowed words and quoted names."""
    columns: tuple[ColumnPath, ...]
    """The columns that it reads, spelled as in the schema, without duplicates."""
    functions: frozenset[str]
    """The functions that it calls, clocks without parentheses included, in lower case."""
    table: str
    owner: str
    """What the expression belongs to, such as a constraint. This and `table` are for messages."""


def read_stored_sql(text: str, schema: StructType, *, table: str, owner: str) -> StoredExpression:
    """The expression `text` over columns of `schema`.

    `owner` says in messages what it belongs to. Raises `UntrustedExpressionError` for anything but operators and
    allowed built-in functions of these columns: no subquery, no other function, no aggregate, no window.
    """
    try:
        if len(text) > TEXT_CHARACTERS_MAX:
            raise UnreadableTextError(f"it is longer than {TEXT_CHARACTERS_MAX} characters")
        reader = _Reader(tokens_of(text), schema)
        reader.read()
        if "${" in "".join(reader.out):
            # Before Spark parses a text it replaces such references by settings, system properties and environment
            # variables, also within quotes: a default could carry a secret of this machine into the table.
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
    """Reads the tokens once and rebuilds the expression from those that are allowed."""

    def __init__(self, tokens: list[Token], schema: StructType) -> None:
        self._tokens = tokens
        self._schema = schema
        self._at = 0
        self._calls: list[str] = []
        """The functions to which the open parentheses belong; empty for one of no function, `[` for a bracket."""
        self._size = SizeEstimate()
        self._cases = 0
        self._parameters: set[str] = set()
        """The parameters of lambda functions, in lower case."""
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
        """Whether the token `ahead` tokens further is one of these symbols."""
        index = self._at + ahead
        return index < len(self._tokens) and any(self._tokens[index].is_symbol(text) for text in texts)

    def _kind(self, ahead: int) -> TokenKind:
        index = self._at + ahead
        return self._tokens[index].kind if index < len(self._tokens) else TokenKind.END

    def _take(self, text: str | None = None) -> None:
        self.out.append(self._here.text if text is None else text)
        if self._here.kind is not TokenKind.SYMBOL:
            self._size.add(len(self._here.text))
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
                self._symbol()
            case TokenKind.QUOTED_NAME:
                self._name()
            case _:
                self._word()

    def _symbol(self) -> None:
        symbol = self._here.text
        if symbol in "([":
            if len(self._calls) >= NESTING_MAX:
                raise UnreadableTextError(f"it nests deeper than {NESTING_MAX} levels")
            if symbol == "(" and self._lambda_parameters():
                return
            self._calls.append("" if symbol == "(" else symbol)
            self._size.open("")
        elif symbol in ")]":
            opened = self._calls.pop() if self._calls else None
            if opened is None or (opened == "[") != (symbol == "]"):
                raise UnreadableTextError("its parentheses do not match")
            self._size.close()
        elif symbol == ",":
            self._size.next_argument()
        elif symbol == "||":
            self._size.check_not_in_aggregation(symbol)
        elif symbol == ".":
            self._field()
            return
        elif symbol in (":", "=>"):
            raise UnreadableTextError(f"{symbol} is used where no operator can be")
        elif symbol == "->":
            raise UnreadableTextError("-> is used where no function takes a lambda")
        elif symbol == "*" and (not self.out or self.out[-1] in ("(", ",")):
            raise UnreadableTextError("* cannot be used for all columns")
        self._take()
        if symbol == "::":
            self._type()

    def _field(self) -> None:
        """A dot and the name of a field."""
        if self._kind(1) not in (TokenKind.WORD, TokenKind.QUOTED_NAME) or self._is(2, "("):
            raise UnreadableTextError("a dot must be followed by the name of a field")
        self._take()
        self._take(_quoted(self._here.name))

    def _lambda_parameters(self) -> bool:
        """The parameters `(x, y) ->` of a lambda; False if the parenthesis begins something else."""
        names: list[str] = []
        ahead = 1
        while self._kind(ahead) in (TokenKind.WORD, TokenKind.QUOTED_NAME) and self._is(ahead + 1, ",", ")"):
            names.append(self._tokens[self._at + ahead].name)
            ahead += 2
            if self._is(ahead - 1, ")"):
                break
        if not names or not self._is(ahead - 1, ")") or not self._is(ahead, "->"):
            return False
        self._check_takes_function()
        self._parameters |= {name.lower() for name in names}
        self.out.append(f"({', '.join(map(_quoted, names))}) ->")
        self._at += ahead + 1
        return True

    def _check_takes_function(self) -> None:
        if not self._calls or self._calls[-1] in ("", "["):
            raise UnreadableTextError("-> is used where no function takes a lambda")

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
        by_context = {
            "ESCAPE": self._kind(1) is TokenKind.STRING,
            "DISTINCT": before in ("IS", "NOT"),
            "FROM": before == "DISTINCT" or (context in TAKES_FROM and before not in ("(", ",")),
            "FOR": context in TAKES_FOR,
            "PLACING": context == "overlay",
            "AS": context in CASTS,
        }
        if upper in by_context:
            return by_context[upper]
        if upper in QUANTIFIERS:
            return before in ("LIKE", "ILIKE") and self._is(1, "(")
        first = before == "(" and bool(context) and not self._is(1, ".", "(")
        return first and (
            (upper in TRIM_SIDES and context == "trim")
            or (upper in FIELDS and context in TAKES_UNIT_FIRST and self._unit_follows(context))
        )

    def _unit_follows(self, context: str) -> bool:
        """Whether the next tokens show that this is a unit, not a column of its name."""
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
        self._size.open(name)
        self._size.add_length(length)

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
        """A column with its fields, or a parameter of a lambda."""
        if self._is(1, "("):
            raise UnreadableTextError("a name in backticks cannot be called as a function")
        if self._is(1, "->"):
            self._check_takes_function()
            self._parameters.add(self._here.name.lower())
            self.out.append(f"{_quoted(self._here.name)} ->")
            self._at += 2
            return
        path = self._path()
        self._size.add(COLUMN_SIZE)
        if path is not None:
            self.columns.append(path)
        elif not self._is_parameter():
            raise UnreadableTextError(
                f"{self._here.text} is not a column of the table, nor a word that a table may use"
            )
        self._take(_quoted(self._here.name))

    def _is_parameter(self) -> bool:
        return self._here.name.lower() in self._parameters

    def _path(self) -> ColumnPath | None:
        """The column that begins here, as far down as structs go, in the schema's spelling.

        For a parameter with the name of a column this is the column, although the expression does not read it.
        """
        path: list[str] = []
        data_type: DataType = self._schema
        ahead = 0
        while isinstance(data_type, StructType):
            spelled = _spelled(data_type, self._tokens[self._at + ahead].name)
            if spelled is None:
                if path and not self._is_parameter():
                    missing = self._tokens[self._at + ahead].name
                    raise UnreadableTextError(f"{'.'.join(path)} has no field {missing}")
                return None
            path.append(spelled)
            data_type = data_type[spelled].dataType
            if not self._is(ahead + 1, ".") or self._kind(ahead + 2) not in (TokenKind.WORD, TokenKind.QUOTED_NAME):
                break
            ahead += 2
        return tuple(path)


def _spelled(struct: StructType, name: str) -> str | None:
    if name in struct.names:
        return name
    return next((field_name for field_name in struct.names if field_name.lower() == name.lower()), None)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
