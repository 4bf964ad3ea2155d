"""Asking a schema registry, with what was asked before remembered: an id means the same for ever.

Always: threads may share one; what a registry does not answer is tried again until `timeout`, then a RegistryFailed; what it
refuses is one at once, with its reason.
"""

from __future__ import annotations

import base64
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

import orjson

from headrace.client.arguments import Duration, seconds
from headrace.client.errors import HeadraceError, InvalidArgument

if TYPE_CHECKING:
    from urllib.error import HTTPError

K = TypeVar("K")
V = TypeVar("V")
DEFAULT_URL: Final = "http://127.0.0.1:8080"
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
RETRY_S: Final = 0.2
REMEMBERED_MAX: Final = 1000
REMEMBERED_CHARACTERS_MAX: Final = 16_000_000


class RegistryFailed(HeadraceError):
    """A schema registry refused a request, or did not answer.  `code` is its own error code, or None."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Reference:
    """A name in a schema that another one, registered under a subject, explains."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as the registry has it."""

    type: str
    text: str
    references: tuple[Reference, ...] = ()


class Remembered(Generic[K, V]):
    """Things by name, the newest: who reads topics of others decides neither how many schemas there are nor how large."""

    def __init__(self, count_max: int = REMEMBERED_MAX, characters_max: int = REMEMBERED_CHARACTERS_MAX) -> None:
        self._count_max = count_max
        self._characters_max = characters_max
        self._lock = threading.Lock()
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._characters = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, name: K) -> V | None:
        # Without the lock: this is asked for every record.  What is asked for often may go, and is then asked for once more.
        found = self._kept.get(name)
        return None if found is None else found[0]

    def put(self, name: K, value: V, characters: int = 0) -> None:
        with self._lock:
            self._characters += characters - self._kept.pop(name, (value, 0))[1]
            self._kept[name] = (value, characters)
            while len(self._kept) > self._count_max or (self._characters > self._characters_max and len(self._kept) > 1):
                self._characters -= self._kept.popitem(last=False)[1][1]


class SchemaRegistry:
    """A schema registry, asked over HTTP.

    Args:
        url: Where it listens; else `HEADRACE_REGISTRY` from the environment, else http://127.0.0.1:8080.
        username: Whom to sign in as, with `password`; both may be in the URL instead.
        password: The password.
        ca_file: Whose certificates to trust with https; the system's, unless given.
        timeout: How long a registry that does not answer is asked again, as seconds or a timedelta.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        username: str | None = None,
        password: str | None = None,
        ca_file: str | None = None,
        timeout: Duration = 30.0,
    ) -> None:
        given = url or os.environ.get("HEADRACE_REGISTRY") or DEFAULT_URL
        parts = urlsplit(given)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgument(f"url={given!r} is not accepted; accepted: http://host:port or https://host:port")
        address = parts.hostname if parts.port is None else f"{parts.hostname}:{parts.port}"
        self.url = urlunsplit((parts.scheme, address, parts.path.rstrip("/"), "", ""))
        self._timeout = seconds("timeout", timeout, at_least=0.1)
        self._context = _tls(ca_file) if parts.scheme == "https" else None
        name, word = username or parts.username, password or parts.password
        signed = base64.b64encode(f"{name}:{word or ''}".encode()).decode() if name else None
        self._headers = {"Content-Type": CONTENT_TYPE, **({"Authorization": f"Basic {signed}"} if signed else {})}
        self._lock = threading.Lock()
        self._by_id: Remembered[int, RegisteredSchema] = Remembered()
        self._ids: Remembered[tuple[str, RegisteredSchema], int] = Remembered()
        self._texts: Remembered[tuple[str, int], RegisteredSchema] = Remembered()

    def id_of(self, subject: str, schema: RegisteredSchema, *, register: bool) -> int:
        """The id of a schema under a subject; one that is not there is registered, or refused."""
        known = self._ids.get((subject, schema))
        if known is None:
            with self._lock:  # so that threads that begin together ask once
                known = self._ids.get((subject, schema)) or self._asked_for_id(subject, schema, register)
                self._ids.put((subject, schema), known, len(schema.text))
        return known

    def _asked_for_id(self, subject: str, schema: RegisteredSchema, register: bool) -> int:
        body: dict[str, Any] = {"schema": schema.text, "schemaType": schema.type}
        if schema.references:
            references = [{"name": each.name, "subject": each.subject, "version": each.version} for each in schema.references]
            body["references"] = references
        path = f"/subjects/{quote(subject, safe='')}"
        return int(self._ask("POST", f"{path}/versions" if register else path, body)["id"])

    def by_id(self, id: int) -> RegisteredSchema:
        """What an id stands for."""
        found = self._by_id.get(id)
        if found is None:
            found = _schema_of(self._ask("GET", f"/schemas/ids/{id}"))
            self._by_id.put(id, found, len(found.text))
        return found

    def serialized(self, id: int) -> dict[str, str]:
        """A Protobuf schema and all that it imports, as descriptors in base64, by file name; each after those that it needs, and
        the schema itself last."""
        found: dict[str, str] = {}
        self._serialize(self.by_id(id), found)
        found[""] = str(self._ask("GET", f"/schemas/ids/{id}?format=serialized")["schema"])
        return found

    def _serialize(self, schema: RegisteredSchema, found: dict[str, str]) -> None:
        for each in schema.references:
            if each.name not in found:
                self._serialize(self._version(each.subject, each.version), found)
                path = f"/subjects/{quote(each.subject, safe='')}/versions/{each.version}?deleted=true&format=serialized"
                found[each.name] = str(self._ask("GET", path)["schema"])

    def latest(self, subject: str) -> tuple[int, RegisteredSchema]:
        """The newest version's id and schema, asked each time."""
        told = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/latest")
        return int(told["id"]), _schema_of(told)

    def version_of(self, subject: str, schema: RegisteredSchema) -> int:
        """Which version of a subject a schema is."""
        body = {"schema": schema.text, "schemaType": schema.type}
        return int(self._ask("POST", f"/subjects/{quote(subject, safe='')}", body)["version"])

    def referenced(self, schema: RegisteredSchema) -> dict[str, str]:
        """The texts of all that a schema refers to, also indirectly, by name; each after those that it needs itself."""
        found: dict[str, str] = {}
        self._refer(schema, found, set())
        return found

    def _refer(self, schema: RegisteredSchema, found: dict[str, str], seen: set[tuple[str, int]]) -> None:
        """Each is gone through once, however many refer to it."""
        for each in schema.references:
            target = self._version(each.subject, each.version)
            if (each.subject, each.version) not in seen:
                seen.add((each.subject, each.version))
                self._refer(target, found, seen)
            found.setdefault(each.name, target.text)

    def _version(self, subject: str, version: int) -> RegisteredSchema:
        found = self._texts.get((subject, version))
        if found is None:
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
            found = _schema_of(self._ask("GET", path))
            self._texts.put((subject, version), found, len(found.text))
        return found

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        # Imported where somebody uses a registry: the SDK's other users do not pay for it.
        from urllib.error import HTTPError, URLError
        from urllib.request import Request, urlopen

        deadline = time.monotonic() + self._timeout
        data = None if body is None else orjson.dumps(body)
        while True:
            request = Request(f"{self.url}{path}", data=data, headers=self._headers, method=method)
            try:
                with urlopen(request, timeout=self._timeout, context=self._context) as answer:
                    told: dict[str, Any] = orjson.loads(answer.read())
                    return told
            except HTTPError as error:
                failure = _refusal(error, method, path)
                if error.code < 500:
                    raise failure from None
            except (URLError, OSError, TimeoutError) as error:
                failure = RegistryFailed(f"no answer from the schema registry at {self.url}: {getattr(error, 'reason', error)}")
            if time.monotonic() + RETRY_S >= deadline:
                raise failure from None
            time.sleep(RETRY_S)


def registry_from(given: SchemaRegistry | str | None) -> SchemaRegistry:
    return given if isinstance(given, SchemaRegistry) else SchemaRegistry(given)


def _tls(ca_file: str | None) -> Any:
    import ssl

    return ssl.create_default_context(cafile=ca_file)


def _schema_of(told: Mapping[str, Any]) -> RegisteredSchema:
    references = tuple(Reference(each["name"], each["subject"], each["version"]) for each in told.get("references") or ())
    return RegisteredSchema(told.get("schemaType") or "AVRO", told["schema"], references)


def _refusal(error: HTTPError, method: str, path: str) -> RegistryFailed:
    try:
        told = orjson.loads(error.read())
        return RegistryFailed(f"the schema registry refused {method} {path}: {told['message']}", told.get("error_code"))
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return RegistryFailed(f"the schema registry refused {method} {path} with HTTP {error.code}", error.code)
