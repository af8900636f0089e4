"""`disable` puts every field of every session back, and `enable` may follow."""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException
from pyspark.errors.exceptions import captured
from start import FOLDER, started

import anabranch
from anabranch.errors.arguments import SessionNotEnabledError
from anabranch.tables import DeltaTable

ANSWERS = {"ANABRANCH_NOT_ENABLED", "PARSE_SYNTAX_ERROR", "UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"}


def fields(session: Any) -> dict[str, Any]:
    """What `enable` may touch; objects of the JVM by what no two of them share."""
    which = session._jvm.java.lang.System.identityHashCode
    state = session._jsparkSession.sessionState()
    extensions = session._jsparkSession.extensions()
    injected = {}
    for field in extensions.getClass().getDeclaredFields():
        field.setAccessible(True)
        injected[field.getName()] = field.get(extensions).toString()
    return {
        "parser": which(state.sqlParser()),
        "parser of the catalog": which(state.catalog().parser()),
        "rules": state.analyzer().extendedResolutionRules().toString(),
        "catalog": session.conf.get("spark.sql.catalog.spark_catalog", "builtin"),
        "catalogs": "spark_catalog" in str(state.catalogManager().listCatalogs(spark._jvm.scala.Option.empty())),
        "of the application": session.sparkContext._jsc.sc().conf().get("spark.sql.catalog.spark_catalog", "none"),
        **injected,
    }


spark = started()
spark.range(3).write.saveAsTable("plain")
before = fields(spark)
convert = captured.convert_exception

for _ in range(2):
    anabranch.enable(spark)
    changed = fields(spark)
    same = {key for key in before if changed[key] == before[key]}
    assert not same & {"parser", "parser of the catalog", "rules", "catalog"}, same
    other = spark.newSession()
    spark.range(3).write.format("delta").mode("overwrite").save(f"{FOLDER}/t")
    spark.sql(f"CREATE TABLE IF NOT EXISTS t USING delta LOCATION '{FOLDER}/t'")
    assert other.table("t").count() == 3

    anabranch.disable(spark)
    after = fields(spark)
    assert after == before, (before, after)
    assert captured.convert_exception is convert
    for call in (DeltaTable.forPath, DeltaTable.forName, DeltaTable.isDeltaTable, DeltaTable.convertToDelta):
        try:
            call(spark, f"{FOLDER}/t")
        except SessionNotEnabledError as error:
            assert "anabranch.enable(spark)" in str(error)
        else:
            raise AssertionError(call)
    for session in (spark, other, spark.newSession()):
        assert session.table("plain").count() == 3
        assert session.conf.get("spark.sql.catalog.spark_catalog", "builtin") == "builtin"
        for statement in ("SELECT * FROM t", f"SELECT * FROM delta.`{FOLDER}/t`", f"OPTIMIZE delta.`{FOLDER}/t`"):
            try:
                session.sql(statement).collect()
            except PySparkException as error:
                assert error.getCondition() in ANSWERS, error
            else:
                raise AssertionError(statement)

anabranch.disable(spark)
spark.stop()
print("done")
