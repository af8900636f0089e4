"""What the write options replaceOn and replaceUsing go with."""

from __future__ import annotations

import pytest

from anabranch.commands.write.write_options import check_replacement, columns_listed
from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.dml import FilterOverwriteError, IncompatibleOptionsError, PartitionOverwriteError

ON, USING = {"replaceon": "a = b"}, {"replaceusing": "a"}


@pytest.mark.parametrize("how", [ON, USING])
@pytest.mark.parametrize("overwrites", [True, False])
def test_what_says_otherwise_which_rows_go_is_refused(how: dict[str, str], overwrites: bool) -> None:
    check_replacement({**how, "mergeschema": "true", "datachange": "true"}, overwrites=overwrites)
    for other, error in [
        ({**ON, **USING}, IncompatibleOptionsError),
        ({"replacewhere": "a = 1"}, FilterOverwriteError),
        ({"partitionoverwritemode": "static"}, PartitionOverwriteError),
        ({"datachange": "False"}, IncompatibleOptionsError),
    ]:
        with pytest.raises(error):
            check_replacement({**how, **other}, overwrites=overwrites)


def test_a_schema_is_only_overwritten_by_an_overwrite() -> None:
    check_replacement({**ON, "overwriteschema": "true"}, overwrites=False)
    check_replacement({**ON, "overwriteschema": "false"}, overwrites=True)
    with pytest.raises(IncompatibleOptionsError, match="overwriteSchema"):
        check_replacement({**ON, "overwriteschema": "TRUE"}, overwrites=True)


@pytest.mark.parametrize(
    ("text", "columns"),
    [("a", ("a",)), (" a , b,a ", ("a", "b")), ("`a b`, `c``d`", ("a b", "c`d")), ("s.x", ("s.x",)), ("`", ("`",))],
)
def test_columns_are_listed_once(text: str, columns: tuple[str, ...]) -> None:
    assert columns_listed(text) == columns


@pytest.mark.parametrize("text", ["", ",", "a,", "a,,b", " "])
def test_an_empty_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="replaceUsing"):
        check_replacement({"replaceusing": text}, overwrites=True)
