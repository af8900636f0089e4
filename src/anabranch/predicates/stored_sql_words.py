"""The words that SQL in a table's metadata may use. All others are refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from anabranch.predicates.sql_lexer import Token, TokenKind, tokenize


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTIONS: Final = _words(
    """
    abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot degrees e exp
    expm1 factorial floor greatest hypot least ln log log10 log1p log2 mod negative pi pmod positive pow power
    radians rint round sec csc sign signum sin sinh sqrt tan tanh width_bucket try_add try_divide try_multiply
    try_subtract bit_count bit_get getbit shiftleft shiftright shiftrightunsigned hex unhex isnan nanvl ascii
    base64 bit_length btrim char char_length character_length chr concat concat_ws contains decode elt encode
    endswith find_in_set format_number format_string initcap instr lcase left length len levenshtein locate
    lower lpad ltrim luhn_check octet_length overlay parse_url position printf regexp_count regexp_extract
    regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr replace reverse right rpad
    rtrim soundex split split_part startswith str_to_map substr substring substring_index to_char to_varchar
    to_binary to_number translate trim try_to_binary try_to_number ucase unbase64 upper md5 sha sha1 sha2 crc32
    hash xxhash64 add_months curdate current_date current_timestamp date date_add date_diff date_format
    date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek
    dayofyear extract from_unixtime from_utc_timestamp hour last_day localtimestamp make_date make_dt_interval
    make_interval make_timestamp make_ym_interval minute month monthname months_between next_day now quarter
    second timestamp timestamp_micros timestamp_millis timestamp_seconds timestampadd timestampdiff to_date
    to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc try_to_timestamp
    unix_date unix_micros unix_millis unix_seconds unix_timestamp weekday weekofyear year bigint binary boolean
    cast decimal double float int smallint string tinyint try_cast coalesce equal_null if ifnull isnotnull
    isnull nullif nullifzero nvl nvl2 zeroifnull typeof aggregate array array_append array_compact
    array_contains array_distinct array_except array_insert array_intersect array_join array_max array_min
    array_position array_prepend array_remove array_size array_sort array_union arrays_overlap arrays_zip
    cardinality element_at exists filter flatten forall get get_json_object from_json to_json map map_concat
    map_contains_key map_entries map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with
    named_struct reduce size slice sort_array struct transform transform_keys transform_values try_element_at
    zip_with is_variant_null parse_json try_parse_json try_variant_get variant_get
    """
)
"""Built-in functions of the row alone, and clocks. None of them runs code, reads files or uses the catalog.
`sequence`, `array_repeat`, `repeat` and `space` are left out because a short text makes them fill the memory;
`stored_sql_bounds` limits others that could."""

CLOCKS: Final = frozenset({"current_date", "current_timestamp", "localtimestamp"})
"""Functions that may be called without parentheses."""

CASTS: Final = frozenset({"cast", "try_cast"})
TAKES_FROM: Final = frozenset({"extract", "substr", "substring", "trim", "overlay"})
TAKES_FOR: Final = frozenset({"substr", "substring", "overlay"})
TAKES_UNIT_FIRST: Final = frozenset({"extract", "timestampadd", "timestampdiff", "dateadd", "date_add", "datediff"})
UNIT_ALWAYS_FIRST: Final = frozenset({"timestampadd", "timestampdiff", "dateadd"})
TRIM_SIDES: Final = frozenset({"BOTH", "LEADING", "TRAILING"})

OPERATORS: Final = _words(
    """
    AND OR NOT IN IS BETWEEN LIKE ILIKE RLIKE REGEXP DIV
    """
)
CONSTANTS: Final = frozenset({"NULL", "TRUE", "FALSE"})
QUANTIFIERS: Final = frozenset({"ANY", "SOME", "ALL"})
"""Words that may follow LIKE and ILIKE."""
CASE_WORDS: Final = frozenset({"WHEN", "THEN", "ELSE"})

TYPED_LITERALS: Final = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "X"})
UNITS: Final = _words(
    """
    YEAR YEARS QUARTER QUARTERS MONTH MONTHS WEEK WEEKS DAY DAYS DAYOFYEAR HOUR HOURS MINUTE MINUTES SECOND
    SECONDS MILLISECOND MILLISECONDS MICROSECOND MICROSECONDS
    """
)
FIELDS: Final = UNITS | frozenset(["YEAROFWEEK", "DAYOFWEEK", "DAYOFWEEK_ISO", "DOW", "DOW_ISO", "DOY", "EPOCH"])
"""The fields that `extract` can return."""

TYPES: Final = _words(
    """
    BIGINT BINARY BOOLEAN BYTE DATE DEC DECIMAL DOUBLE FLOAT INT INTEGER LONG NUMERIC REAL SHORT SMALLINT STRING
    TIMESTAMP TIMESTAMP_LTZ TIMESTAMP_NTZ TINYINT CHAR CHARACTER VARCHAR VARIANT
    """
)
TYPES_WITH_LENGTH: Final = frozenset({"DEC", "DECIMAL", "NUMERIC", "CHAR", "CHARACTER", "VARCHAR"})


# SQL text as tokens, the same ones as Spark's lexer makes.


_SYMBOLS: Final = _words("<=> => <= >= <> != == || -> :: - = < > + * / % & | ^ ~ ! ( ) [ ] . , :")
_ESCAPED: Final = re.compile(r"\\.|\"\"|'", re.DOTALL)


class UnreadableTextError(ValueError):
    """A text that is not an allowed expression. The message says why."""

    def __init__(self, message: str, *, function: str | None = None) -> None:
        super().__init__(message)
        self.function = function
        """The function that no table may call, in lower case; None for other reasons."""


def tokens_of(text: str) -> list[Token]:
    """All tokens, then one of kind END. Raises `UnreadableTextError`."""
    tokens = [_checked(part, text) for token in tokenize(text) for part in _parts(token)]
    return [*tokens, Token(TokenKind.END, "", len(text))]


def _parts(token: Token) -> list[Token]:
    """The token itself; the two symbols of one that Spark reads as two, such as `>>` at the end of nested types."""
    if token.kind is not TokenKind.SYMBOL or token.text in _SYMBOLS:
        return [token]
    return [Token(token.kind, text, token.start + index) for index, text in enumerate(token.text)]


def _checked(token: Token, text: str) -> Token:
    match token.kind:
        case TokenKind.STRING if token.text[0] == '"':
            # A setting of the session decides whether these quote text or a name; in a table they quote text.
            return token._replace(text=f"'{_ESCAPED.sub(_in_single_quotes, token.text[1:-1])}'")
        case TokenKind.STRING:
            readable = token.text[0] in "'rR"
        case TokenKind.SYMBOL:
            readable = token.text in _SYMBOLS
        case TokenKind.WORD:
            readable = not token.text[0].isdigit()
        case TokenKind.QUOTED_NAME:
            readable = token.name != ""
        case _:
            readable = token.kind is TokenKind.NUMBER
    if not readable:
        raise UnreadableTextError(f"it cannot be read from {text[token.start : token.start + 20]!r} on")
    return token


def _in_single_quotes(match: re.Match[str]) -> str:
    return {"'": "\\'", '""': '"'}.get(match[0], match[0])


# Types in such SQL, as in `CAST(a AS ARRAY<INT>)`.


class TypeReader:
    """Reads one type; `at` is then the index of the token after it."""

    def __init__(self, tokens: Sequence[Token], at: int) -> None:
        self._tokens = tokens
        self.at = at

    def read(self) -> str:
        """The type, rebuilt from allowed words. Raises `UnreadableTextError`."""
        token = self._tokens[self.at]
        if token.kind is not TokenKind.WORD:
            raise UnreadableTextError("a type is missing")
        self.at += 1
        match token.word:
            case "ARRAY":
                return f"ARRAY<{self._parts(1)}>"
            case "MAP":
                return f"MAP<{self._parts(2)}>"
            case "STRUCT":
                return f"STRUCT<{', '.join(self._fields())}>"
            case name if name in TYPES:
                return name + (self._length() if name in TYPES_WITH_LENGTH and self._is("(") else "")
        raise UnreadableTextError(f"{token.text} is not a type that a table may cast to")

    def _is(self, symbol: str) -> bool:
        return self._tokens[self.at].is_symbol(symbol)

    def _expect(self, symbol: str) -> None:
        if not self._is(symbol):
            raise UnreadableTextError(f"{symbol} is missing in a type")
        self.at += 1

    def _parts(self, count: int) -> str:
        types: list[str] = []
        for index in range(count):
            self._expect("," if index else "<")
            types.append(self.read())
        self._expect(">")
        return ", ".join(types)

    def _fields(self) -> list[str]:
        self._expect("<")
        fields: list[str] = []
        while True:
            name = self._tokens[self.at]
            if name.kind not in (TokenKind.WORD, TokenKind.QUOTED_NAME):
                raise UnreadableTextError("a name is missing in a struct")
            self.at += 1
            if self._is(":"):
                self.at += 1
            quoted = name.name.replace("`", "``")
            fields.append(f"`{quoted}`: {self.read()}")
            if not self._is(","):
                self._expect(">")
                return fields
            self.at += 1

    def _length(self) -> str:
        self._expect("(")
        numbers: list[str] = []
        while self._tokens[self.at].kind is TokenKind.NUMBER:
            numbers.append(self._tokens[self.at].text)
            self.at += 1
            if not self._is(","):
                break
            self.at += 1
        self._expect(")")
        if not numbers or not all(number.isdigit() for number in numbers):
            raise UnreadableTextError("the length of a type is not a number")
        return f"({', '.join(numbers)})"
