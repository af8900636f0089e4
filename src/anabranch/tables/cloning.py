"""`DeltaTable.clone` and its kin: arguments checked with Delta's words, then cloned."""

from __future__ import annotations

from anabranch.commands.clone import clone_target, shallow_clone
from anabranch.commands.clone_source import delta_source
from anabranch.commands.create_table import CreationMode
from anabranch.commands.read import TimeTravel
from anabranch.commands.table_access import TableHandle
from anabranch.errors.clone import CloneArgumentError, DeepCloneError

_EXPECTED: dict[type, str] = {str: "a string", bool: "a boolean", int: "an int", dict: "a dict"}


def clone_into(
    handle: TableHandle,
    travel: TimeTravel,
    target: str,
    *,
    is_shallow: bool,
    replace: bool,
    properties: dict[str, str] | None,
) -> TableHandle:
    """The new clone. Raises `CloneArgumentError`, `DeepCloneError` and as `shallow_clone`."""
    check_clone_arguments(target=target, is_shallow=is_shallow, replace=replace, properties=properties)
    if not is_shallow:
        raise DeepCloneError(target=target)
    made = clone_target(handle.session, target)
    mode = CreationMode.CREATE_OR_REPLACE if replace else CreationMode.CREATE
    shallow_clone(made, delta_source(handle, travel), mode, properties or {})
    return made


def check_clone_arguments(*, target: object, is_shallow: object, replace: object, properties: object) -> None:
    """Raises `CloneArgumentError`, which is also a `ValueError`."""
    check_clone_argument("target", target, str)
    check_clone_argument("isShallow", is_shallow, bool)
    check_clone_argument("replace", replace, bool)
    if properties is None:
        return
    check_clone_argument("properties", properties, dict)
    assert isinstance(properties, dict)
    for name, value in properties.items():
        check_clone_argument(f"All property keys including {name}", name, str)
        check_clone_argument(f"All property values including {value}", value, str)


def check_clone_argument(name: str, value: object, kind: type) -> None:
    """Raises `CloneArgumentError` unless `value` is of that type. A bool is no int here."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise CloneArgumentError(argument=name, expected=_EXPECTED[kind], found=str(type(value)))
