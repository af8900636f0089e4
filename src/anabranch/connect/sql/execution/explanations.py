"""EXPLAIN of statements that Spark parses."""

from __future__ import annotations

from anabranch.connect.sql.grammar.many_inserts import Inserts
from anabranch.connect.sql.grammar.merges import Match, Merge
from anabranch.connect.sql.grammar.row_changes import Delete, Update
from anabranch.connect.sql.grammar.views import CreateView
from anabranch.sql import explanations
from anabranch.sql.call import Call
from anabranch.sql.explanations import Choice, Explanation, Explanations, named, of_query, rows_where


def _of_rows(call: Call, statement: Delete | Update) -> Explanation:
    alias = call.alias(statement.table, statement.alias)
    query = rows_where(named(call, statement.table, statement.alias), statement.condition)
    return Explanation(queries=(query,), chooses=Choice(condition=statement.condition, alias=alias))


def _of_merge(call: Call, statement: Merge) -> Explanation:
    kinds = {clause.match for clause in statement.clauses}
    lonely_source, lonely_target = Match.NOT_MATCHED in kinds, Match.NOT_MATCHED_BY_SOURCE in kinds
    join = {(True, True): "FULL", (True, False): "RIGHT", (False, True): "LEFT", (False, False): "INNER"}
    target = named(call, statement.table, statement.alias)
    kind = join[lonely_source, lonely_target]
    query = ("SELECT * FROM", target, f"{kind} JOIN", statement.source, "ON", statement.condition)
    return Explanation(queries=(query,), chooses=Choice(condition=None))


def _of_inserts(_: Call, statement: Inserts) -> Explanation:
    return Explanation(queries=tuple((statement.source, each.query) for _, each in statement.inserts))


EXPLAINED: Explanations = {
    **explanations.EXPLAINED,
    Delete: _of_rows,
    Update: _of_rows,
    Merge: _of_merge,
    Inserts: _of_inserts,
    CreateView: of_query,
}
