"""What the gateway can be asked: each operation is declared once, and routes, checks and OpenAPI come from that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from headrace.gateway.api.call import Call

Handler = Callable[["Call"], Awaitable[Any]]
Declared = TypeVar("Declared", bound=Handler)

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class Keep(Protocol):
    """A decorator that leaves a handler as it is."""

    def __call__(self, handler: Declared, /) -> Declared: ...


@dataclass(frozen=True, slots=True)
class Parameter:
    """Something in the query string."""

    name: str
    description: str
    kind: Literal["text", "number", "boolean", "choice"] = "text"
    required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    minimum: int = 0
    maximum: int = 2**63 - 1

    def schema(self) -> dict[str, Any]:
        match self.kind:
            case "number":
                found: dict[str, Any] = {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}
            case "boolean":
                found = {"type": "boolean"}
            case "choice":
                found = {"type": "string", "enum": list(self.choices)}
            case "text":
                found = {"type": "string", "minLength": 1, "maxLength": 4096}
        return found if self.default is None else {**found, "default": self.default}


@dataclass(frozen=True, slots=True)
class Operation:
    """One method on one path."""

    method: Method
    path: str
    summary: str
    handler: Handler
    tag: str
    query: tuple[Parameter, ...] = ()
    body: Any = None  # a shape; None where there is none, or where the handler reads it itself
    body_media: tuple[str, ...] = ("application/json",)
    body_required: bool = True
    streams_in: bool = False  # the handler reads the body itself
    answer: Any = None  # a shape; None where nothing comes back
    answer_media: str = "application/json"
    status: int = 200
    description: str = ""
    needs_caller: bool = True
    listed: bool = True

    @property
    def is_change(self) -> bool:
        return self.method != "GET"


@dataclass(slots=True)
class Operations:
    """The operations of one noun."""

    tag: str
    each: list[Operation] = field(default_factory=list)

    def declare(self, method: Method, path: str, summary: str, **more: Any) -> Keep:
        def keep(handler: Declared) -> Declared:
            description = " ".join((handler.__doc__ or "").split())
            self.each.append(Operation(method, path, summary, handler, self.tag, **{"description": description, **more}))
            return handler

        return keep

    def get(self, path: str, summary: str, **more: Any) -> Keep:
        return self.declare("GET", path, summary, **more)

    def post(self, path: str, summary: str, **more: Any) -> Keep:
        return self.declare("POST", path, summary, **more)

    def put(self, path: str, summary: str, **more: Any) -> Keep:
        return self.declare("PUT", path, summary, **more)

    def patch(self, path: str, summary: str, **more: Any) -> Keep:
        return self.declare("PATCH", path, summary, **more)

    def delete(self, path: str, summary: str, **more: Any) -> Keep:
        return self.declare("DELETE", path, summary, **more)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with more to say than its body."""

    body: Any = None
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
