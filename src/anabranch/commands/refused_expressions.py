"""What a table may not be told to compute or to ask, said by Delta's conditions where a user defines it.

In a table that is there already such an expression is refused as `UntrustedExpressionError` alone.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Final

from anabranch.errors.constraints import (
    AggregateInConstraintError,
    AggregateInGenerationError,
    NonDeterministicConstraintError,
    NonDeterministicGenerationError,
    UnsupportedConstraintError,
    UnsupportedGenerationError,
    UntrustedExpressionError,
)
from anabranch.predicates.stored_sql import StoredExpression


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NON_DETERMINISTIC: Final = _words(
    """
    input_file_block_length input_file_block_start input_file_name monotonically_increasing_id rand randn
    random randstr shuffle spark_partition_id uniform uuid
    """
)
_AGGREGATES: Final = _words(
    """
    any any_value approx_count_distinct approx_percentile array_agg avg bit_and bit_or bit_xor bool_and
    bool_or collect_list collect_set corr count count_if count_min_sketch covar_pop covar_samp every first
    first_value grouping grouping_id histogram_numeric kurtosis last last_value listagg max max_by mean
    median min min_by mode percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy
    regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness some std stddev
    stddev_pop stddev_samp string_agg sum try_avg try_sum var_pop var_samp variance
    """
)
_WINDOW: Final = re.compile(r"\bover\s*\(", re.IGNORECASE)
_CLOCKS: Final = frozenset({"curdate", "current_date", "current_timestamp", "localtimestamp"})
"""`now` is among what Delta lets a column be computed by."""
_NOW_IN_SECONDS: Final = re.compile(r"\bunix_timestamp \( \)")


@contextlib.contextmanager
def generation_refused() -> Iterator[None]:
    """Raises the error of a generated column in the place of an `UntrustedExpressionError`."""
    try:
        yield
    except UntrustedExpressionError as error:
        kinds = (NonDeterministicGenerationError, AggregateInGenerationError, UnsupportedGenerationError)
        raise _as(error, *kinds) from None


@contextlib.contextmanager
def constraint_refused() -> Iterator[None]:
    """Raises the error of a CHECK constraint in the place of an `UntrustedExpressionError`."""
    try:
        yield
    except UntrustedExpressionError as error:
        kinds = (NonDeterministicConstraintError, AggregateInConstraintError, UnsupportedConstraintError)
        raise _as(error, *kinds) from None


def check_asks_no_clock(read: StoredExpression) -> None:
    """Raises `UnsupportedGenerationError` for a column whose value would be another one tomorrow."""
    called = read.functions & _CLOCKS
    if _NOW_IN_SECONDS.search(read.sql):
        called |= {"unix_timestamp"}
    if called:
        name = min(called)
        raise UnsupportedGenerationError(
            table=read.table,
            owner=read.owner,
            expression=read.text,
            reason=f"{name} looks at the clock, and nobody could check its values later",
            function=name,
        )


def _as(
    error: UntrustedExpressionError,
    non_deterministic: type[UntrustedExpressionError],
    aggregate: type[UntrustedExpressionError],
    unsupported: type[UntrustedExpressionError],
) -> UntrustedExpressionError:
    kind = unsupported
    if not _WINDOW.search(error.expression):
        kind = aggregate if error.function in _AGGREGATES else kind
        kind = non_deterministic if error.function in _NON_DETERMINISTIC else kind
    return kind(
        table=error.table,
        owner=error.owner,
        expression=error.expression,
        reason=error.reason,
        function=error.function,
    )
