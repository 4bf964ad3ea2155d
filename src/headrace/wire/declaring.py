"""`dataclass` for messages, of which there are four hundred: the same, with next to nothing to compile when a process starts.

The standard one writes and compiles six functions for each class.  Here those that are alike for all are shared, and the one that
makes a message is compiled when the first is made: most brokers never meet most of them.  Type checkers see the standard one.
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

Message = TypeVar("Message")

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool = False, slots: bool, kw_only: bool) -> Callable[[type[Message]], type[Message]]:
        """With fields in slots that are named when one is made, always."""
        assert slots, "messages are declared alike"
        assert kw_only, "messages are declared alike"

        def declare(kind: type[Message]) -> type[Message]:
            assert kind.__bases__ == (object,), "all fields of a message are its own"
            made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=True)(kind)
            for name, function in (_FROZEN if frozen else _CHANGEABLE).items():
                setattr(made, name, function)
            return made

        return declare


def is_frozen(kind: type) -> bool:
    """Whether messages of this class stay as they were made."""
    return "__setattr__" in vars(kind)


def _init(self: Any, **values: Any) -> None:
    """The first one of its class: from here on the class has a function of its own."""
    kind = type(self)
    kind.__init__ = _compiled_init(kind)
    kind.__init__(self, **values)


def _compiled_init(kind: type) -> Callable[..., None]:
    names: dict[str, Any] = {"put": object.__setattr__}
    parameters, lines = [], []
    for field in dataclasses.fields(kind):
        assert field.default_factory is dataclasses.MISSING, f"{kind.__name__}.{field.name}: what is shared is not changed"
        if field.default is dataclasses.MISSING:
            parameters.append(field.name)
        else:
            names[f"default_{field.name}"] = field.default
            parameters.append(f"{field.name}=default_{field.name}")
        line = f"put(self, {field.name!r}, {field.name})" if is_frozen(kind) else f"self.{field.name} = {field.name}"
        lines.append(f"    {line}")
    signature = ", ".join(["self", *(["*", *parameters] if parameters else [])])
    exec("\n".join([f"def __init__({signature}):", *(lines or ["    pass"])]), names)
    made: Callable[..., None] = names["__init__"]
    made.__qualname__ = f"{kind.__qualname__}.__init__"
    return made


def _field_values(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, name) for name in self.__slots__])


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: Any) -> Any:
    if self is other:  # as where a reply has nothing to say in a field, which is then what it is by default
        return True
    return _field_values(self) == _field_values(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_field_values(self))


def _refuse_change(self: Any, name: str, value: Any = None) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")


def _restore(self: Any, state: tuple[Any, ...]) -> None:
    for name, value in zip(self.__slots__, state, strict=True):
        object.__setattr__(self, name, value)


_CHANGEABLE: dict[str, Any] = {"__init__": _init, "__repr__": _repr, "__eq__": _eq, "__hash__": None}
_FROZEN: dict[str, Any] = {
    **_CHANGEABLE,
    "__hash__": _hash,
    "__setattr__": _refuse_change,
    "__delattr__": _refuse_change,
    "__getstate__": _field_values,
    "__setstate__": _restore,
}
