"""A reply that says no, for any API: what the broker would have sent had it refused every part of a request.

The error goes as deep as the reply has places for it: to each partition, else to each topic, else to the whole.  What a
reply repeats from its request (names, ids, numbers) is taken from there.
"""

from collections.abc import Iterable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_args, get_type_hints
from uuid import UUID

from headrace.wire.schema import Scalar, Sized, array

# A field of a reply, and what the same thing may be called in the request.
CALLED_IN_THE_REQUEST = {
    "responses": ("topic_data", "topics", "resources"),
    "partition_responses": ("partition_data",),
    "results": ("topics", "resources", "transactions", "groups_names"),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_transaction": ("transactions",),
    "coordinators": ("coordinator_keys",),
    "groups": ("groups", "group_ids"),
    "name": ("name", "topic", "topic_name"),
    "topic": ("topic", "name", "topic_name"),
    "topic_name": ("topic_name", "name", "topic"),
    "index": ("index", "partition_index", "partition"),
    "partition": ("partition", "partition_index", "index"),
    "partition_index": ("partition_index", "index", "partition"),
    "partition_results": ("partitions",),
    "results_by_partition": ("partitions",),
}
ERROR_FIELDS = ("error_code", "partition_error_code")


def error_reply(response: type[Any], request: Any, code: int) -> Any:
    """A reply of this class that refuses this request."""
    return _build(response, request, code)[0]


def with_errors(reply: Any, code: int) -> Any:
    """The same reply with every error code in it replaced: for replies that carry more than a client can do without."""
    changed: dict[str, Any] = {}
    for field in fields(reply):
        value = getattr(reply, field.name)
        if field.name in ERROR_FIELDS:
            changed[field.name] = code
        elif isinstance(value, tuple | list):
            changed[field.name] = tuple(with_errors(each, code) if is_dataclass(each) else each for each in value)
        else:
            changed[field.name] = value
    return type(reply)(**changed)


def _build(struct: type[Any], source: Any, code: int) -> tuple[Any, bool]:
    """The struct, and whether the error found a place in it."""
    hints = get_type_hints(struct, include_extras=True)
    values: dict[str, Any] = {}
    placed = False
    for field in fields(struct):
        element = _element(hints[field.name])
        if element is not None:
            built = [_build(element, each, code) for each in _parts(field.name, source)]
            values[field.name] = tuple(each for each, _ in built)
            placed = placed or any(found for _, found in built)
        elif field.name not in ERROR_FIELDS and (value := _scalar(field, hints[field.name], source)) is not MISSING:
            values[field.name] = value
    own = [field.name for field in fields(struct) if field.name in ERROR_FIELDS]
    for name in own:
        values[name] = 0 if placed else code
    return struct(**values), placed or bool(own)


def _element(hint: Any) -> type[Any] | None:
    """The class of an array's elements, when they are structs."""
    for note in get_args(hint)[1:]:
        if isinstance(note, array) and isinstance(note.element, type):
            return note.element
    return None


def _parts(name: str, source: Any) -> Iterable[Any]:
    for candidate in (name, *CALLED_IN_THE_REQUEST.get(name, ())):
        found = getattr(source, candidate, None)
        if isinstance(found, tuple | list):
            return found
    return ()


def _scalar(field: "Field[Any]", hint: Any, source: Any) -> Any:
    """The request's value of this field; without one, the default, or what stands for nothing."""
    wire = next((note for note in get_args(hint)[1:] if isinstance(note, Scalar | Sized)), None)
    for candidate in (field.name, *CALLED_IN_THE_REQUEST.get(field.name, ())):
        if hasattr(source, candidate) and not isinstance(getattr(source, candidate), tuple | list):
            return getattr(source, candidate)
    # Where the request lists bare names or numbers, the element itself is the name or the number.
    if isinstance(source, str) and isinstance(wire, Sized) and field.name in ("name", "topic", "topic_name", "key", "group_id"):
        return source
    if isinstance(source, int) and isinstance(wire, Scalar) and field.name in ("index", "partition", "partition_index"):
        return source
    if field.default is not MISSING or field.default_factory is not MISSING:
        return MISSING
    return _nothing(wire)


def _nothing(wire: Scalar | Sized | None) -> Any:
    if isinstance(wire, Sized):
        return "" if wire.text else b""  # and not null, which older versions of a field may not be
    if wire is None:
        return ()
    return UUID(int=0) if wire.name == "uuid" else False if wire.name == "bool" else -1
