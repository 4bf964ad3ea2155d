"""Audit events as JSON in the Open Cybersecurity Schema (OCSF 1.3): API Activity (6003) and Authentication (3002).

An event says who, from where, by which client, what, from which old to which new value, and how it ended.  It is one line of
JSON, whatever names it holds, and has been through the redaction as a whole.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Final

import orjson

from headrace.declaring import dataclass
from headrace.model.access.acls import Operation
from headrace.model.access.principals import Principal, Subject
from headrace.model.errors import ErrorCode
from headrace.model.names import AUDIT
from headrace.security.audit.redaction import redacted, redacted_text
from headrace.wire.apis import ApiKey, api_name

SCHEMA_VERSION: Final = "1.3.0"
API_ACTIVITY: Final = 6003
AUTHENTICATION: Final = 3002
TEXT_CHARACTERS_MAX: Final = 2000
RESOURCES_MAX: Final = 100
CHANGES_MAX: Final = 100  # of one event; an act that changes more makes several


class Activity(IntEnum):
    """What an act does to what it is about.  The numbers are OCSF's."""

    CREATE = 1
    READ = 2
    UPDATE = 3
    DELETE = 4
    OTHER = 99


class Severity(IntEnum):
    """OCSF's."""

    INFORMATIONAL = 1
    LOW = 2
    MEDIUM = 3


_LOGON: Final = 1
_SUCCESS, _FAILURE = 1, 2
_PROTOCOLS: Final = {"PLAIN": 11, "OAUTHBEARER": 6}  # Basic Authentication, OAuth 2.0; SCRAM and mTLS are Other
_OTHER_PROTOCOL: Final = 99

ACTIVITIES: Final = {
    Operation.READ: Activity.READ,
    Operation.DESCRIBE: Activity.READ,
    Operation.DESCRIBE_CONFIGS: Activity.READ,
    Operation.DESCRIBE_TOKENS: Activity.READ,
    Operation.CREATE: Activity.CREATE,
    Operation.CREATE_TOKENS: Activity.CREATE,
    Operation.WRITE: Activity.UPDATE,
    Operation.IDEMPOTENT_WRITE: Activity.UPDATE,
    Operation.ALTER: Activity.UPDATE,
    Operation.ALTER_CONFIGS: Activity.UPDATE,
    Operation.DELETE: Activity.DELETE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a request came from."""

    subject: Subject
    port: int | None = None
    listener: str = ""
    client_id: str = ""
    software: str = ""  # the client's library and its version, as it says


@dataclass(frozen=True, slots=True)
class Resource:
    """What an act was about.  The kind is a word such as TOPIC, GROUP, CLUSTER, BROKER or USER."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class ValueChange:
    """A value before and after; None where there was or is none."""

    name: str
    before: object
    after: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """An event that stands for several alike."""

    count: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class EventMaker:
    """Makes the events of one broker."""

    version: str
    broker: str  # its id, or another name for people
    new_uid: Callable[[], str]

    def act(
        self,
        origin: Origin,
        api: ApiKey,
        activity: Activity,
        resources: Sequence[Resource],
        *,
        time_ms: int,
        error: ErrorCode = ErrorCode.NONE,
        detail: str = "",
        changes: Sequence[ValueChange] = (),
        repeats: Repeats | None = None,
    ) -> bytes:
        """Somebody administered something, or tried to."""
        event = self._base(API_ACTIVITY, activity, time_ms, error, detail)
        event |= self._api(origin, api, resources)
        if changes:
            event["unmapped"]["changes"] = [_change(change) for change in changes[:CHANGES_MAX]]
        return _line(event | (_repeats(repeats) if repeats is not None else {}))

    def denial(
        self,
        origin: Origin,
        api: ApiKey,
        operation: Operation,
        resource: Resource,
        error: ErrorCode,
        reason: str,
        repeats: Repeats,
    ) -> bytes:
        """Somebody was not allowed something, perhaps often."""
        activity = ACTIVITIES.get(operation, Activity.OTHER)
        event = self._base(API_ACTIVITY, activity, repeats.last_ms, error, reason, Severity.MEDIUM)
        event |= self._api(origin, api, [resource]) | _repeats(repeats)
        event["unmapped"]["operation"] = operation.name
        return _line(event)

    def sign_in(
        self, origin: Origin, mechanism: str, *, time_ms: int, failure: str | None = None, repeats: Repeats | None = None
    ) -> bytes:
        """Somebody signed in, or (`failure` says why) did not."""
        error = ErrorCode.NONE if failure is None else ErrorCode.SASL_AUTHENTICATION_FAILED
        severity = Severity.INFORMATIONAL if failure is None else Severity.MEDIUM
        event = self._base(AUTHENTICATION, _LOGON, time_ms, error, failure or "", severity)
        event |= {
            "user": _user(origin.subject.principal, origin.subject.groups),
            "auth_protocol": mechanism,
            "auth_protocol_id": _PROTOCOLS.get(mechanism, _OTHER_PROTOCOL),
            "is_remote": True,
            "service": {"name": "headrace"},
            "src_endpoint": _endpoint(origin),
            "unmapped": _client(origin),
        }
        return _line(event | (_repeats(repeats) if repeats is not None else {}))

    def dropped(self, count: int, *, time_ms: int) -> bytes:
        """So many events found no room: they were too many, or could not be written for too long."""
        event = self._base(
            API_ACTIVITY, Activity.OTHER, time_ms, ErrorCode.NONE, f"{count} events were not recorded", Severity.MEDIUM
        )
        event |= self._api(Origin(subject=Subject()), None, []) | {"count": count}
        return _line(event)

    def _base(
        self, kind: int, activity: int, time_ms: int, error: ErrorCode, detail: str, severity: Severity = Severity.INFORMATIONAL
    ) -> dict[str, Any]:
        failed = error is not ErrorCode.NONE
        return {
            "class_uid": kind,
            "category_uid": kind // 1000,
            "activity_id": activity,
            "type_uid": kind * 100 + activity,
            "time": time_ms,
            "severity_id": max(severity, Severity.LOW) if failed else severity,
            "status_id": _FAILURE if failed else _SUCCESS,
            "status_code": error.name,
            "status_detail": detail,
            "metadata": {
                "version": SCHEMA_VERSION,
                # Who reads an event twice, after a write that was tried again, knows it by this.
                "uid": self.new_uid(),
                "log_name": AUDIT,
                "log_provider": self.broker,
                "product": {"name": "Headrace", "vendor_name": "Headrace", "version": self.version},
            },
        }

    def _api(self, origin: Origin, api: ApiKey | None, resources: Sequence[Resource]) -> dict[str, Any]:
        listed = [{"type": each.kind, "name": each.name} for each in resources[:RESOURCES_MAX]]
        more = {"resources_left_out": len(resources) - RESOURCES_MAX} if len(resources) > RESOURCES_MAX else {}
        return {
            "actor": {"user": _user(origin.subject.principal, origin.subject.groups), "app_name": origin.client_id},
            "api": {"operation": "Audit" if api is None else api_name(api), "service": {"name": "kafka"}},
            "src_endpoint": _endpoint(origin),
            "resources": listed,
            "unmapped": _client(origin) | more,
        }


def _user(principal: Principal, groups: Sequence[Principal]) -> dict[str, Any]:
    """`uid` is exact, for machines; `name` is for people, and cannot pass for another's."""
    user: dict[str, Any] = {"name": principal.shown.partition(":")[2], "uid": str(principal), "type": principal.kind}
    if groups:
        user["groups"] = [{"name": each.name} for each in groups]
    return user


def _endpoint(origin: Origin) -> dict[str, Any]:
    return {"ip": origin.subject.address} | ({"port": origin.port} if origin.port is not None else {})


def _client(origin: Origin) -> dict[str, Any]:
    return {"client_id": origin.client_id, "client_software": origin.software, "listener": origin.listener}


def _repeats(repeats: Repeats) -> dict[str, Any]:
    return {"count": repeats.count, "start_time": repeats.first_ms, "end_time": repeats.last_ms}


def _change(change: ValueChange) -> dict[str, Any]:
    return {
        "name": change.name,
        "before": redacted(change.before, change.name),
        "after": redacted(change.after, change.name),
    }


def _line(event: dict[str, Any]) -> bytes:
    """One line.  Texts are cut, so that nobody fills the audit with names that they make up."""
    return orjson.dumps(_cleaned(event))


def _cleaned(value: Any) -> Any:
    match value:
        case str():
            # What is no Unicode (a half of a pair) becomes a question mark: an event is never lost for its text.
            text = redacted_text(value[: TEXT_CHARACTERS_MAX * 2]).encode("utf-8", "replace").decode()
            return text if len(text) <= TEXT_CHARACTERS_MAX else f"{text[:TEXT_CHARACTERS_MAX]}…"
        case dict():
            return {key: _cleaned(each) for key, each in value.items()}
        case list():
            return [_cleaned(each) for each in value]
        case _:
            return value
