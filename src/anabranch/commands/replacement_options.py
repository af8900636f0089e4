"""The write options replaceOn and replaceUsing: what they say, and what they do not go with."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.replace_on import FilterOverwriteError, IncompatibleOptionsError, PartitionOverwriteError

ON, USING = "replaceOn", "replaceUsing"


def check_replacement(given: Mapping[str, str], *, overwrites: bool) -> None:
    """Whether the other options go with one of the two; `given` are all of them, their names in small letters.

    Raises `IncompatibleOptionsError` and its kin, and `InvalidOptionError`.
    """
    named = ON if ON.lower() in given else USING
    if ON.lower() in given and USING.lower() in given:
        raise IncompatibleOptionsError(option=ON, other=USING)
    if "replacewhere" in given:
        raise FilterOverwriteError(option=named, other="replaceWhere")
    if "partitionoverwritemode" in given:
        raise PartitionOverwriteError(option=named, other="partitionOverwriteMode")
    if overwrites and given.get("overwriteschema", "").strip().lower() == "true":
        problem = "rows that stay would have another schema than those that come"
        raise IncompatibleOptionsError(option=named, other="overwriteSchema", problem=problem)
    if given.get("datachange", "").strip().lower() == "false":
        problem = "rows that are replaced change"
        raise IncompatibleOptionsError(option=named, other="dataChange=false", problem=problem)
    if named == USING:
        columns_listed(given[USING.lower()])


def columns_listed(text: str) -> tuple[str, ...]:
    """The columns that replaceUsing names, each once; backticks around a name are no part of it.

    Raises `InvalidOptionError`.
    """
    names = [_plain_name(part.strip()) for part in text.split(",")]
    if not all(names):
        problem = "it is a list of columns with commas between them, and a name is missing"
        raise InvalidOptionError(option=USING, value=text, problem=problem)
    return tuple(dict.fromkeys(names))


def _plain_name(name: str) -> str:
    quoted = len(name) > 1 and name[0] == name[-1] == "`"
    return name[1:-1].replace("``", "`") if quoted else name
