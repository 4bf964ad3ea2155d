"""Subscriptions over HTTP: made, shown, paused, replayed, deleted; their secrets changed and their deliveries looked at."""

from __future__ import annotations

import base64
import hmac
import secrets
import time
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final, Literal

import orjson

from headrace.client.positions import parse_position
from headrace.gateway.administration.queues import GROUP_RESOURCE
from headrace.gateway.administration.wire import change_settings_of
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations, Reply
from headrace.gateway.api.paging import PAGE, page
from headrace.gateway.api.shapes import described
from headrace.gateway.brokers.group_offsets import committed
from headrace.gateway.records.consume import positions_at
from headrace.gateway.serving.problems import Problem, bad_request, not_found
from headrace.gateway.webhooks.delivery import Delivery
from headrace.gateway.webhooks.engine import rotated
from headrace.gateway.webhooks.signing import new_secret
from headrace.gateway.webhooks.subscription import NewSubscription, Subscription, SubscriptionShown, new_document, readable

operations = Operations("webhooks")

VERIFICATION: Final = "headrace.verification"
VERIFY_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class SubscriptionPage:
    """Some subscriptions, and where the next page begins."""

    subscriptions: list[SubscriptionShown]
    next: str | None


@dataclass(frozen=True, slots=True)
class StatusChange:
    """Whether it delivers."""

    status: Annotated[Literal["active", "paused"], described("A paused one keeps its place.")]


@dataclass(frozen=True, slots=True)
class Replay:
    """Where to begin again."""

    begin: Annotated[str, described("earliest, latest, or an ISO timestamp.", minLength=1, example="2026-05-01T12:00:00Z")]


@dataclass(frozen=True, slots=True)
class Secret:
    """A new key of signatures, shown this once; the one before is good for another day."""

    secret: str


@dataclass(frozen=True, slots=True)
class Deliveries:
    """The last attempts, the newest first; `failure` says why nothing is delivered just now, where brokers are the reason."""

    deliveries: list[Delivery]
    failure: str | None


def _found(call: Call, state: Any, name: str) -> Subscription:
    """One of the caller's own; of others' nobody is told that they are there."""
    kept = state.things.get(name)
    if kept is None or not kept.document or kept.document.get("principal") != call.caller.name:
        raise not_found("subscription_not_found", "There is no such subscription.", "GET /subscriptions lists yours.")
    return Subscription(name, kept.version, kept.document)


@operations.get("/subscriptions", "List webhooks", query=PAGE, answer=SubscriptionPage)
async def list_subscriptions(call: Call) -> SubscriptionPage:
    state = await call.gateway.fleet.synced()
    mine = [
        found
        for name, version, document in state.documents()
        if document.get("principal") == call.caller.name and (found := readable(name, version, document)) is not None
    ]
    shown, following = page(mine, call.query, lambda each: each.id)
    return SubscriptionPage([each.shown(state.owner_of(each.id)) for each in shown], following)


@operations.post("/subscriptions", "Make a webhook", body=NewSubscription, answer=SubscriptionShown, status=201)
async def create_subscription(call: Call) -> Reply:
    """The endpoint is asked first: it is posted `{"type": "headrace.verification", "challenge": …}`, signed with the secret that
    the answer shows, and has to answer 2xx with the challenge in its body. Records are then read as the caller, by the
    credentials of this request. The answer's `secret` is shown this once."""
    wanted: NewSubscription = call.body
    gateway = call.gateway
    gateway.fleet.require()
    wanted.filter.check()
    gateway.guard.check_url(wanted.callback_url)
    kept = _kept_credentials(call)
    cluster = call.caller.cluster
    partitions = sorted(await cluster.leaders(wanted.topic))
    begins = await positions_at(cluster, wanted.topic, wanted.begin, partitions, wanted.isolation)
    if wanted.ordered:
        await committed(cluster, wanted.group, wanted.topic, partitions)  # which says so where the group is none of the caller's
    else:
        await _begin_queue(call, wanted)
    name, secret = f"sub_{secrets.token_hex(12)}", new_secret()
    await _verify(call, wanted.callback_url, secret)
    document = new_document(
        asdict(wanted),
        call.caller.name,
        begins,
        gateway.seal.seal([{"secret": secret, "until": None}]),
        gateway.seal.seal(kept),
        time.time_ns() // 1_000_000,
    )
    await gateway.fleet.journal.change("thing", name, 0, document)
    made = Subscription(name, 1, document)
    return Reply(made.shown(None, secret), headers={"Location": f"/subscriptions/{name}"})


async def _begin_queue(call: Call, wanted: NewSubscription) -> None:
    """A queue has no place before its first member, and begins where its settings say."""
    position = parse_position(wanted.begin)
    if position.kind == "offset":
        raise bad_request("A queue begins at earliest, latest, or an ISO timestamp.")
    where: str = position.kind
    if position.kind == "time":
        where = f"by_duration:PT{max(0, time.time() - position.number / 1000):.3f}S"
    changes: dict[str, str | None] = {"share.auto.offset.reset": where, "share.isolation.level": wanted.isolation}
    await change_settings_of(call, GROUP_RESOURCE, wanted.group, changes)


def _kept_credentials(call: Call) -> dict[str, str]:
    """What deliveries sign in with later."""
    kept = call.caller.credentials.kept
    if kept is None:
        raise Problem(
            422,
            "credentials_not_kept",
            "A bearer token ends before a subscription does.",
            "Make the subscription with Basic credentials or a client certificate.",
        )
    if "password" in kept and not call.gateway.seal.has_key:
        raise Problem(
            503,
            "credentials_not_kept",
            "This gateway has no key to seal the password with, and keeps none without.",
            "Give all gateways the same --secret-key-file, or use a client certificate.",
        )
    return dict(kept)


async def _verify(call: Call, url: str, secret: str) -> None:
    challenge = base64.urlsafe_b64encode(secrets.token_bytes(24)).decode()
    body = orjson.dumps({"type": VERIFICATION, "challenge": challenge})
    outcome = await call.gateway.poster.post(url, body, "application/json", f"verify_{secrets.token_hex(8)}", [secret], VERIFY_S)
    if not outcome.is_delivered or not _contains(outcome.body, challenge):
        # Not what the endpoint said: the gateway is no way to read what others cannot.
        why = "It did not answer with the challenge." if outcome.is_delivered else "It did not answer with 2xx."
        raise Problem(
            422,
            "endpoint_not_verified",
            f"The endpoint has not shown that it wants this subscription. {why}",
            'Have it answer a message of type headrace.verification with {"challenge": <the same>}.',
        )


def _contains(body: bytes, challenge: str) -> bool:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return hmac.compare_digest(body.strip(), challenge.encode())
    return isinstance(found, dict) and found.get("challenge") == challenge


@operations.get("/subscriptions/{subscription}", "Show a webhook", answer=SubscriptionShown)
async def show_subscription(call: Call) -> SubscriptionShown:
    state = await call.gateway.fleet.synced()
    return _found(call, state, call.path("subscription")).shown(state.owner_of(call.path("subscription")))


@operations.patch("/subscriptions/{subscription}", "Pause or resume a webhook", body=StatusChange, answer=SubscriptionShown)
async def change_status(call: Call) -> SubscriptionShown:
    found = _found(call, await call.gateway.fleet.synced(), call.path("subscription"))
    return await _change(call, found, {"status": call.body.status})


@operations.delete("/subscriptions/{subscription}", "Delete a webhook")
async def delete_subscription(call: Call) -> None:
    found = _found(call, await call.gateway.fleet.synced(), call.path("subscription"))
    if not await call.gateway.fleet.journal.change("thing", found.id, found.version, {}):
        raise _changed_meanwhile()


@operations.post("/subscriptions/{subscription}/replays", "Deliver again from a time", body=Replay, answer=SubscriptionShown)
async def replay(call: Call) -> SubscriptionShown:
    found = _found(call, await call.gateway.fleet.synced(), call.path("subscription"))
    cluster, wanted = call.caller.cluster, found.wanted
    if not wanted.ordered:
        raise Problem(
            409,
            "not_replayed",
            "A subscription without order is a queue.",
            "Pause it, and move the queue: PATCH /queues/{group}.",
        )
    partitions = sorted(await cluster.leaders(wanted.topic))
    begins = await positions_at(cluster, wanted.topic, call.body.begin, partitions, wanted.isolation)
    return await _change(
        call, found, {"begins": {str(each): offset for each, offset in begins.items()}, "replay": found.replay + 1}
    )


@operations.post("/subscriptions/{subscription}/secrets", "Make a new secret", answer=Secret, status=201)
async def rotate_secret(call: Call) -> Secret:
    """Signatures are made with both until the old one ends, in a day."""
    found = _found(call, await call.gateway.fleet.synced(), call.path("subscription"))
    seal, secret = call.gateway.seal, new_secret()
    kept = rotated(seal.open(found.document["secrets"]), secret, time.time())
    await _change(call, found, {"secrets": seal.seal(kept)})
    return Secret(secret)


@operations.get("/subscriptions/{subscription}/deliveries", "Show the last attempts", answer=Deliveries)
async def show_deliveries(call: Call) -> Any:
    """Asked of the gateway that delivers, wherever the request comes in."""
    gateway = call.gateway
    state = await gateway.fleet.synced()
    found = _found(call, state, call.path("subscription"))
    if found.status != "active":
        return Deliveries([], None)
    owner = state.owner_of(found.id)
    if owner is not None and owner != gateway.fleet.id:
        return await gateway.forward(call, owner)
    return Deliveries(*gateway.engine.deliveries(found.id))


async def _change(call: Call, found: Subscription, changes: dict[str, Any]) -> SubscriptionShown:
    if found.status == "gone" and changes.get("status") != "active":
        raise bad_request("The endpoint has answered 410: this subscription has ended.", "Set its status to active first.")
    fleet = call.gateway.fleet
    document = {**found.document, **changes}
    if not await fleet.journal.change("thing", found.id, found.version, document):
        raise _changed_meanwhile()
    return Subscription(found.id, found.version + 1, document).shown(fleet.journal.state.owner_of(found.id))


def _changed_meanwhile() -> Problem:
    return Problem(
        409, "changed_meanwhile", "Somebody else has changed it in this moment.", "GET it again, and repeat the change."
    )
