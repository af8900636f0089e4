"""ALTER TABLE … ADD CONSTRAINT and DROP CONSTRAINT."""

from __future__ import annotations

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.alter.alter_transaction import Alteration
from anabranch.commands.definition.rule_checks import check_constraint
from anabranch.commands.definition.table_definition import constraint_property, current_properties
from anabranch.commands.table_access import TableRef
from anabranch.errors.constraints import ConstraintExistsError, ConstraintNotFoundError
from anabranch.protocol.properties import CONSTRAINT_PREFIX
from anabranch.schema.write_rules import check_owner
from anabranch.spark.write.row_rules import to_column
from anabranch.transactions.commit.commit_context import CommittedVersion

_ASSUMES_IF_EXISTS = "spark.databricks.delta.constraints.assumesDropIfExists.enabled"


def alter_add_constraint(table: TableRef, name: str, expression: str) -> CommittedVersion | None:
    """Add a CHECK constraint, once every row satisfies it.

    Raises `ConstraintNameError`, `ConstraintExistsError`, `UntrustedExpressionError`, `ExpressionTypeError`,
    `ExistingRowsViolateError`, and `MetadataChangedException` or `ConcurrentAppendException` where a commit meanwhile
    may have added other rows.
    """
    alteration = Alteration(table)
    properties = current_properties(alteration.snapshot.metadata)
    existing = _stored_name(properties, name)
    if existing is not None:
        raise ConstraintExistsError(table=table.label, name=name, expression=properties[existing])
    schema = alteration.snapshot.schema
    read = check_constraint(table.session.spark, name, expression, schema, table=table.label)
    violated = ~F.coalesce(to_column(read), F.lit(False))
    columns = tuple(dict.fromkeys(path[0] for path in read.columns)) or tuple(schema.names)
    alteration.check_rows(violated, columns, rule=check_owner(name), expression=expression)
    defined = alteration.define(configuration={**properties, constraint_property(name): expression})
    return alteration.commit("ADD CONSTRAINT", {"name": name, "expr": expression}, defined)


def alter_drop_constraint(table: TableRef, name: str, *, if_exists: bool = False) -> CommittedVersion | None:
    """Drop a CHECK constraint.

    Raises `ConstraintNotFoundError` where there is none, unless `if_exists` or a setting of the session allows it.
    """
    alteration = Alteration(table)
    properties = current_properties(alteration.snapshot.metadata)
    existing = _stored_name(properties, name)
    if existing is None:
        if if_exists or table.session.flag(_ASSUMES_IF_EXISTS, default=False):
            return None
        constraints = tuple(sorted(alteration.snapshot.properties.constraints))
        raise ConstraintNotFoundError(table=table.label, name=name, existing=constraints)
    expression = properties.pop(existing)
    defined = alteration.define(configuration=properties)
    return alteration.commit("DROP CONSTRAINT", {"name": name, "expr": expression, "existed": "true"}, defined)


def _stored_name(properties: dict[str, str], name: str) -> str | None:
    """The property that holds the constraint. Other writers may have stored its name with capital letters."""
    wanted = f"{CONSTRAINT_PREFIX}{name}".lower()
    return next((key for key in properties if key.lower() == wanted), None)
