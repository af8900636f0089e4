"""The words that SQL in a table's metadata may use. All others are refused."""

from __future__ import annotations

from typing import Final


def words(text: str) -> frozenset[str]:
    """The words of a text that spaces separate."""
    return frozenset(text.split())


FUNCTIONS: Final = words(
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

OPERATORS: Final = words(
    """
    AND OR NOT IN IS BETWEEN LIKE ILIKE RLIKE REGEXP DIV
    """
)
CONSTANTS: Final = frozenset({"NULL", "TRUE", "FALSE"})
QUANTIFIERS: Final = frozenset({"ANY", "SOME", "ALL"})
"""Words that may follow LIKE and ILIKE."""
CASE_WORDS: Final = frozenset({"WHEN", "THEN", "ELSE"})

TYPED_LITERALS: Final = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "X"})
UNITS: Final = words(
    """
    YEAR YEARS QUARTER QUARTERS MONTH MONTHS WEEK WEEKS DAY DAYS DAYOFYEAR HOUR HOURS MINUTE MINUTES SECOND
    SECONDS MILLISECOND MILLISECONDS MICROSECOND MICROSECONDS
    """
)
FIELDS: Final = UNITS | frozenset(["YEAROFWEEK", "DAYOFWEEK", "DAYOFWEEK_ISO", "DOW", "DOW_ISO", "DOY", "EPOCH"])
"""The fields that `extract` can return."""

TYPES: Final = words(
    """
    BIGINT BINARY BOOLEAN BYTE DATE DEC DECIMAL DOUBLE FLOAT INT INTEGER LONG NUMERIC REAL SHORT SMALLINT STRING
    TIMESTAMP TIMESTAMP_LTZ TIMESTAMP_NTZ TINYINT CHAR CHARACTER VARCHAR VARIANT
    """
)
TYPES_WITH_LENGTH: Final = frozenset({"DEC", "DECIMAL", "NUMERIC", "CHAR", "CHARACTER", "VARCHAR"})
