"""A subscription: what callers give, what is kept, and what is shown of it.  Its secrets are shown once, when they are made."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final, Literal

from headrace.gateway.api.shapes import described, read
from headrace.gateway.serving.problems import Problem
from headrace.gateway.webhooks.filters import Filter

ATTEMPTS: Final = 10
SECRET_OVERLAP_S: Final = 24 * 3600


@dataclass(frozen=True, slots=True)
class NewSubscription:
    """Records of a topic to be posted to an address."""

    topic: Annotated[str, described("The topic.", minLength=1, maxLength=249, example="orders")]
    group: Annotated[str, described("Whose offsets move as deliveries succeed.", minLength=1, maxLength=249, example="billing")]
    callback_url: Annotated[str, described("Where to post.", minLength=1, maxLength=2048, example="https://shop.example/hook")]
    begin: Annotated[
        str, described("Where to begin when the group has committed nothing: earliest, latest, or an ISO timestamp.", minLength=1)
    ] = "latest"
    ordered: Annotated[
        bool,
        described(
            "Whether records of a key come in order, one after the other, and the group is a consumer group. Without order the "
            "group is a queue (a share group): records are delivered side by side, and one that fails holds up none."
        ),
    ] = True
    batch: Annotated[int, described("How many records in one request at most.", minimum=1, maximum=1000)] = 1
    format: Annotated[Literal["json", "cloudevents"], described("How records are written.")] = "json"
    filter: Annotated[Filter, described("Which records.")] = field(default_factory=Filter)
    attempts: Annotated[int, described("How often a delivery is tried before it is a dead letter.", minimum=1, maximum=100)] = (
        ATTEMPTS
    )
    timeout_ms: Annotated[int, described("How long the endpoint may take.", minimum=100, maximum=60_000)] = 10_000
    dead_letter_topic: Annotated[
        str | None, described("Where records go that could not be delivered; the topic's name with .dead-letter if not given.")
    ] = None
    isolation: Annotated[Literal["read_committed", "read_uncommitted"], described("What of transactions is read.")] = (
        "read_committed"
    )


@dataclass(frozen=True, slots=True)
class SubscriptionShown:
    """A subscription, without its secrets."""

    id: str
    topic: str
    group: str
    callback_url: str
    batch: int
    format: str
    filter: dict[str, Any]
    attempts: int
    timeout_ms: int
    dead_letter_topic: str
    isolation: str
    status: Annotated[str, described("`active`, `paused`, or `gone` after the endpoint answered 410.")]
    created_at: Annotated[int, described("Milliseconds since 1970.")]
    owner: Annotated[str | None, described("The gateway that delivers; null while it is taken over.")]
    ordered: bool = True
    secret: Annotated[str | None, described("The key of its signatures; only in the answer that makes it.")] = None


@dataclass(slots=True)
class Subscription:
    """As it is kept; what is secret is sealed."""

    id: str
    version: int
    document: dict[str, Any]
    wanted: NewSubscription = field(init=False)

    def __post_init__(self) -> None:
        self.wanted = read(NewSubscription, self.document["wanted"])

    @property
    def principal(self) -> str:
        return str(self.document["principal"])

    @property
    def status(self) -> str:
        return str(self.document["status"])

    @property
    def begins(self) -> dict[int, int]:
        return {int(partition): offset for partition, offset in self.document["begins"].items()}

    @property
    def replay(self) -> int:
        """How often it was replayed; 0 is never."""
        return int(self.document["replay"])

    @property
    def dead_letter_topic(self) -> str:
        return self.wanted.dead_letter_topic or f"{self.wanted.topic}.dead-letter"

    def shown(self, owner: str | None, secret: str | None = None) -> SubscriptionShown:
        wanted = self.wanted
        return SubscriptionShown(
            self.id,
            wanted.topic,
            wanted.group,
            wanted.callback_url,
            wanted.batch,
            wanted.format,
            asdict(wanted.filter),
            wanted.attempts,
            wanted.timeout_ms,
            self.dead_letter_topic,
            wanted.isolation,
            self.status,
            self.document["created_at"],
            owner,
            wanted.ordered,
            secret,
        )


def readable(name: str, version: int, document: dict[str, Any]) -> Subscription | None:
    """What is kept, where it can be read: a newer gateway, or somebody else, may have written it."""
    try:
        found = Subscription(name, version, document)
        _ = found.principal, found.begins, found.replay, found.shown(None)
        return found
    except (Problem, LookupError, TypeError, ValueError, AttributeError):
        return None


def new_document(
    wanted: dict[str, Any], principal: str, begins: dict[int, int], secrets: dict[str, Any], kept: dict[str, Any], now_ms: int
) -> dict[str, Any]:
    """What is kept of a new subscription; `secrets` and `kept` are sealed."""
    return {
        "wanted": wanted,
        "principal": principal,
        "status": "active",
        "begins": {str(partition): offset for partition, offset in begins.items()},
        "replay": 0,
        "secrets": secrets,
        "credentials": kept,
        "created_at": now_ms,
    }
