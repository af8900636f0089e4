"""`FROM … INSERT … INSERT …`, run."""

from __future__ import annotations

from pyspark.sql import DataFrame

from anabranch.connect.sql.grammar.many_inserts import Inserts
from anabranch.sql.call import Call
from anabranch.sql.execution_of_inserts import prepared
from anabranch.sql.grammar.cursor import Fragment


def insert_many(call: Call, statement: Inserts, *before: Fragment) -> DataFrame:
    """One INSERT after the other, each a commit of its own, that reads what is there when its turn comes."""
    ours = [(written, each) for written, each in statement.inserts if call.is_delta(each.table)]
    for _, each in ours:
        # What cannot be done is told before anything is.
        prepared(call, each, *before, statement.source)
    for written, each in statement.inserts:
        if (written, each) in ours:
            prepared(call, each, *before, statement.source)()
        else:
            call.query(*before, statement.source, written)
    return call.nothing()
