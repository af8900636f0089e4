"""Converts Arrow arrays to the table's types: fields renamed, values widened, missing fields filled with null."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.cli.rows.arrow_types import FIELD_ID, is_variant

FindField = Callable[[Sequence[pa.Field], pa.Field, int], int | None]
"""The index of the field that matches a target field, which is at `position` of its struct; None if none matches."""

_VARIANT_FIELDS = {"value", "metadata"}


def by_position(fields: Sequence[pa.Field], wanted: pa.Field, position: int) -> int | None:  # noqa: ARG001
    """The field at the same position: both sides have the same fields in the same order."""
    return position if position < len(fields) else None


def by_name(fields: Sequence[pa.Field], wanted: pa.Field, position: int) -> int | None:  # noqa: ARG001
    """The field of the same name; if there is none, the only one whose name differs just in case."""
    names = [field.name for field in fields]
    if wanted.name in names:
        return names.index(wanted.name)
    matches = [index for index, name in enumerate(names) if name.lower() == wanted.name.lower()]
    return matches[0] if len(matches) == 1 else None


def by_field_id(fields: Sequence[pa.Field], wanted: pa.Field, position: int) -> int | None:
    """The field of the same Parquet field id. Fields without an id (those of variants) are matched by name."""
    number = (wanted.metadata or {}).get(FIELD_ID)
    if number is None:
        return by_name(fields, wanted, position)
    return next((index for index, field in enumerate(fields) if (field.metadata or {}).get(FIELD_ID) == number), None)


def fit(array: pa.Array, target: pa.DataType, find: FindField) -> pa.Array:
    """The values of `array` in the type `target`.

    A field that `find` does not find is null in every row. Values are only widened, except that fractions of a
    microsecond are cut off. Raises `pa.ArrowInvalid` or `pa.ArrowNotImplementedError` where values do not fit.
    """
    source = array.type
    if pa.types.is_dictionary(source):
        array, source = array.dictionary_decode(), source.value_type
    if is_variant(target):
        return _fit_variant(array, target)
    if pa.types.is_struct(target) and pa.types.is_struct(source):
        return _fit_struct(array, target, find)
    if pa.types.is_map(target) and pa.types.is_map(source):
        return _fit_map(array, target, find)
    if pa.types.is_list(target) and (pa.types.is_list(source) or pa.types.is_large_list(source)):
        return _fit_list(array, target, find)
    if source == target:
        return array
    return pc.cast(array, options=pc.CastOptions(target_type=target, allow_time_truncate=True))


def _fit_struct(array: pa.StructArray, target: pa.StructType, find: FindField) -> pa.Array:
    source_fields, target_fields = list(array.type), list(target)
    children = []
    for position, field in enumerate(target_fields):
        index = find(source_fields, field, position)
        children.append(
            pa.nulls(len(array), field.type) if index is None else fit(array.field(index), field.type, find)
        )
    return pa.StructArray.from_arrays(children, fields=target_fields, mask=array.is_null())


def _fit_list(array: pa.Array, target: pa.ListType, find: FindField) -> pa.Array:
    if pa.types.is_large_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    # Offsets and validity are taken over, so slices and nulls over undefined values stay correct.
    values = fit(array.values, target.value_type, find)
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], offset=array.offset, children=[values])


def _fit_map(array: pa.MapArray, target: pa.MapType, find: FindField) -> pa.Array:
    keys, items = fit(array.keys, target.key_type, find), fit(array.items, target.item_type, find)
    entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], offset=array.offset, children=[entries])


def _fit_variant(array: pa.Array, target: pa.StructType) -> pa.Array:
    source = array.type
    if not pa.types.is_struct(source) or {field.name for field in source} != _VARIANT_FIELDS:
        # A shredded variant has a third field; ignoring it would lose values.
        raise pa.ArrowNotImplementedError(f"a variant that is stored as {source}")
    children = [array.field(field.name) for field in target]
    hidden = array.is_null()
    filled = [pc.fill_null(child.cast(pa.binary()), b"") for child in children]
    return pa.StructArray.from_arrays(filled, fields=list(target), mask=hidden)
