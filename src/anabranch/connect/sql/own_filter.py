"""What the text of a query says of the rows of the one table that it reads.

On Spark Connect nobody tells how Spark resolved a query. Of one form its words are enough: `SELECT … FROM t WHERE …`
over one table, whose values are made row by row, of functions of Spark's own that always answer the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import AnalysisException

from anabranch.commands.own_reads import OwnFilter
from anabranch.commands.table_access import TableHandle, table_identified
from anabranch.connect.sql.references import TableReference, table_references
from anabranch.errors.tables import InvalidIdentifierError, NotADeltaTableError
from anabranch.predicates.sql_tokens import Token, tokenize
from anabranch.spark.table_identifiers import PathIdentifier, identifier_of
from anabranch.spark.unresolved.condition_text import is_steady_text
from anabranch.sql.call import Call
from anabranch.sql.grammar.cursor import Fragment

_NOWHERE = frozenset({"OVER", "USING", "TABLE", "VALUES", "WITH", "DISTINCT"})
"""Words of queries within, of windows, and of scripts that are fed with rows."""
_NOT_BEHIND_WHERE = frozenset(
    {
        *("FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT", "MINUS"),
        *("WINDOW", "QUALIFY", "SORT", "CLUSTER", "DISTRIBUTE", "LATERAL"),
    }
)


def filter_of_own_rows(call: Call, handle: TableHandle, query: Fragment) -> OwnFilter | None:
    """What rows of the table pass in `query`, if it reads that table once, row by row, and nothing else; else None."""
    found = table_references(query.text)
    if len(found) != 1 or not _is_plain(found[0]):
        return None
    parts = _condition(query, found[0])
    if parts is None or not is_steady_text(call.session.spark, query.text):
        return None
    try:
        identifier = identifier_of(found[0].parts)
        if table_identified(call.session, identifier).path != handle.path or _counts_rows(call, query):
            return None
    except (InvalidIdentifierError, NotADeltaTableError):
        return None
    condition, alias = parts
    if alias is None and not isinstance(identifier, PathIdentifier):
        alias = identifier.parts[-1]
    return OwnFilter(condition=call.literals(condition), alias=alias)


def _is_plain(reference: TableReference) -> bool:
    special = (reference.version, reference.timestamp_sql, reference.name_sql, reference.function)
    return not reference.is_stream and special == (None, None, None, None)


def _condition(query: Fragment, reference: TableReference) -> tuple[Fragment, str | None] | None:
    """The condition of `SELECT … FROM t [[AS] alias] WHERE …`, and the alias; None for all other forms."""
    tokens = tokenize(query.text)
    words = [token.word for token in tokens]
    if words[0] != "SELECT" or words[1] == "ALL" or words.count("SELECT") > 1 or not _NOWHERE.isdisjoint(words):
        return None
    if any(token.is_symbol("|>") or token.is_symbol(";") for token in tokens):
        return None
    outer = _outer(tokens)
    clause = next((place for place in outer if words[place] == "FROM"), None)
    if clause is None or clause + 1 >= len(tokens) or tokens[clause + 1].start != reference.start:
        return None
    place = next((at for at, token in enumerate(tokens) if token.start >= reference.end), len(tokens))
    if place < len(tokens) and words[place] == "AS":
        place += 1
    alias = None
    if reference.has_alias and place < len(tokens):
        alias, place = tokens[place].name, place + 1
    if place + 1 >= len(tokens) or words[place] != "WHERE":
        return None
    if any(words[at] in _NOT_BEHIND_WHERE for at in outer if at > place):
        return None
    start, end = tokens[place + 1].start, tokens[-1].end
    return Fragment(query.source, query.start + start, query.start + end), alias


def _outer(tokens: Sequence[Token]) -> list[int]:
    """The places of tokens that stand in no parentheses."""
    found, depth = [], 0
    for place, token in enumerate(tokens):
        if token.is_symbol("("):
            depth += 1
        elif token.is_symbol(")"):
            depth -= 1
        elif depth == 0:
            found.append(place)
    return found


def _counts_rows(call: Call, query: Fragment) -> bool:
    """Whether some value is an aggregate, which Spark refuses beside the columns of single rows. Nothing runs."""
    text = query.text
    first = tokenize(text)[0].end
    try:
        assert call.select(f"{text[:first]} *,{text[first:]}", call.parameters_of(query)).schema is not None
    except AnalysisException:
        return True
    return False
