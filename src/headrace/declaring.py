"""`dataclass`, of which there are a thousand, with next to nothing to compile when a process starts.  It imports nothing of ours.

The standard one writes and compiles six functions for each class.  Here each is compiled when the first instance needs it: most
processes never meet most of the classes.  Type checkers see the standard one, and what is said to it means the same here.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

Kind = TypeVar("Kind")

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        *, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True
    ) -> Callable[[type[Kind]], type[Kind]]:
        """Always with parameters: those that are in use."""

        def declare(kind: type[Kind]) -> type[Kind]:
            own = {name for name, value in vars(kind).items() if value is not None}  # `__hash__` is, where `__eq__` is its own
            made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(kind)
            for name, function in _functions(frozen=frozen, eq=eq).items():
                if name not in own:
                    setattr(made, name, function)
            return made

        return declare


def is_frozen(kind: type) -> bool:
    """Whether instances of this class stay as they were made."""
    function: Any = kind.__setattr__
    return function is not object.__setattr__


def _functions(*, frozen: bool, eq: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"__init__": _init, "__repr__": _repr}
    if eq:
        made |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
    if frozen:
        made |= {"__setattr__": _refuse_change, "__delattr__": _refuse_change, "__getstate__": _state, "__setstate__": _restore}
    return made


def _init(self: Any, *values: Any, **named: Any) -> None:
    """The first one of its class: from here on the class has a function of its own; so with the two below."""
    _compiled(self, "__init__", _init, _init_source)(self, *values, **named)


def _eq(self: Any, other: Any) -> Any:
    return _compiled(self, "__eq__", _eq, _eq_source)(self, other)


def _hash(self: Any) -> int:
    hashed: int = _compiled(self, "__hash__", _hash, _hash_source)(self)
    return hashed


def _compiled(instance: Any, name: str, late: Any, source: Callable[[type, dict[str, Any]], str]) -> Callable[..., Any]:
    """The class's own function in place of this one; a class may have one that it inherits."""
    kind = next((each for each in type(instance).__mro__ if vars(each).get(name) is late), None)
    if kind is None:  # another thread was faster
        found: Callable[..., Any] = getattr(type(instance), name)
        return found
    names: dict[str, Any] = {"_put": object.__setattr__}
    exec(source(kind, names), names)
    made: Callable[..., Any] = names[name]
    made.__qualname__ = f"{kind.__qualname__}.{name}"
    setattr(kind, name, made)
    return made


def _init_source(kind: type, names: dict[str, Any]) -> str:
    parameters: dict[bool, list[str]] = {False: [], True: []}
    lines = []
    for field in dataclasses.fields(kind):
        name, value = field.name, field.name
        if field.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"], names["_absent"] = field.default_factory, dataclasses.MISSING
            default = "=_absent"
            value = f"_make_{name}() if {name} is _absent else {name}" if field.init else f"_make_{name}()"
        elif field.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = field.default
            default = f"=_default_{name}"
        else:
            default = ""
        if field.init:
            parameters[bool(field.kw_only)].append(name + default)
        elif not default:
            continue
        elif value == name:
            value = f"_default_{name}"
        lines.append(f"_put(self, {name!r}, {value})" if is_frozen(kind) else f"self.{name} = {value}")
    if hasattr(kind, "__post_init__"):
        lines.append("self.__post_init__()")
    named = ["*", *parameters[True]] if parameters[True] else []
    return _source(f"__init__({', '.join(['self', *parameters[False], *named])})", lines or ["pass"])


def _eq_source(kind: type, names: dict[str, Any]) -> str:
    """The same one is equal without a look: as where a reply says nothing in a field, which is then what it is by default."""
    compared = [field.name for field in dataclasses.fields(kind) if field.compare]
    lines = [
        "if self is other: return True",
        "if other.__class__ is not self.__class__: return NotImplemented",
        f"return {_tuple('self', compared)} == {_tuple('other', compared)}",
    ]
    return _source("__eq__(self, other)", lines)


def _hash_source(kind: type, names: dict[str, Any]) -> str:
    fields = dataclasses.fields(kind)
    hashed = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
    return _source("__hash__(self)", [f"return hash({_tuple('self', hashed)})"])


def _tuple(owner: str, names: Iterable[str]) -> str:
    return f"({''.join(f'{owner}.{name}, ' for name in names)})"


def _source(signature: str, lines: Iterable[str]) -> str:
    return "\n".join([f"def {signature}:", *(f"    {line}" for line in lines)])


def _repr(self: Any) -> str:
    shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse_change(self: Any, name: str, value: Any = None) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")


def _state(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, field.name) for field in dataclasses.fields(self)])


def _restore(self: Any, state: tuple[Any, ...]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
