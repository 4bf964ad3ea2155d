"""Confluent's REST v2 for those who read in a group: an instance is made, subscribed, read, committed for, and deleted.

An instance is of the gateway that made it, and `base_uri` says where that is, as Confluent's proxies do.  What is to outlive a
gateway is a member by the gateway's own paths.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations, Parameter
from headrace.gateway.confluent.answers import V2, answered, body_of, in_their_form
from headrace.gateway.records.formats import shown
from headrace.gateway.records.members import Acknowledgement, DonePlace, Member, MemberId, NewMember
from headrace.gateway.serving.problems import Problem, bad_request, not_found

if TYPE_CHECKING:
    from headrace.gateway.gateway import Gateway

operations = Operations("confluent")

INSTANCE: Final = "/consumers/{group}/instances/{instance}"
FORMATS: Final = ("binary", "json")
WAIT_MS: Final = 1000
RECORDS: Final = 1000


@dataclass(slots=True)
class Instance:
    """What a client has made; `identity` is there once it has subscribed."""

    caller_key: str
    form: str
    begin: str
    commits_by_itself: bool
    identity: MemberId | None = None
    made_at: float = field(default_factory=time.monotonic)


class Instances:
    """By group and name; what joins the group is one of the gateway's members, and is limited with them."""

    def __init__(self) -> None:
        self._each: dict[tuple[str, str], Instance] = {}

    def add(self, group: str, name: str, instance: Instance, gateway: Gateway) -> None:
        self.forget_ended(gateway)
        if (group, name) in self._each:
            raise Problem(409, "member_exists", "An instance with this name is there already.", "Choose another name.")
        if len(self._each) >= gateway.settings.limits.members_max:
            raise Problem(503, "too_many_members", "This gateway has as many instances as it may.", "Delete one.")
        self._each[group, name] = instance

    def of(self, call: Call) -> Instance:
        found = self._each.get((call.path("group"), call.path("instance")))
        if found is None or found.caller_key != call.caller.key:
            raise not_found("member_not_found", "Consumer instance not found.", "Make one with POST /consumers/{group}.")
        return found

    def remove(self, group: str, name: str) -> None:
        self._each.pop((group, name), None)

    def forget_ended(self, gateway: Gateway) -> None:
        """Those whose members were idle for too long, and those that never subscribed."""
        oldest = time.monotonic() - gateway.settings.limits.member_idle_seconds
        ended = [
            key
            for key, each in self._each.items()
            if (each.made_at < oldest if each.identity is None else not gateway.members.has(each.identity))
        ]
        for key in ended:
            del self._each[key]


def _member(call: Call, instance: Instance) -> Member:
    if instance.identity is None:
        raise bad_request("The instance has subscribed to nothing.", "POST a subscription first.")
    return call.gateway.members.of(instance.identity, call.caller)


@operations.post("/consumers/{group}", "Make an instance, as Confluent's REST v2", streams_in=True, listed=False)
@in_their_form
async def create(call: Call) -> web.StreamResponse:
    body = await body_of(call)
    form = body.get("format", "binary")
    if form not in FORMATS:
        raise bad_request("format must be binary or json.")
    begin = body.get("auto.offset.reset", "latest")
    if begin not in ("earliest", "latest"):
        raise bad_request("auto.offset.reset must be earliest or latest.")
    name = str(body.get("name") or f"rest-consumer-{secrets.token_hex(8)}")
    commits = str(body.get("auto.commit.enable", "true")).lower() == "true"
    group = call.path("group")
    call.gateway.instances.add(group, name, Instance(call.caller.key, form, begin, commits), call.gateway)
    base = call.gateway.settings.advertise or call.gateway.server.url
    return answered({"instance_id": name, "base_uri": f"{base}/consumers/{group}/instances/{name}"})


@operations.delete(INSTANCE, "Delete an instance, as Confluent's REST v2", streams_in=True, listed=False)
@in_their_form
async def delete(call: Call) -> web.StreamResponse:
    instance = call.gateway.instances.of(call)
    call.gateway.instances.remove(call.path("group"), call.path("instance"))
    if instance.identity is not None:
        await call.gateway.members.end(instance.identity)
    return web.Response(status=204)


@operations.post(f"{INSTANCE}/subscription", "Subscribe, as Confluent's REST v2", streams_in=True, listed=False)
@in_their_form
async def subscribe(call: Call) -> web.StreamResponse:
    instance, body = call.gateway.instances.of(call), await body_of(call)
    topics = body.get("topics")
    if not isinstance(topics, list) or not topics or not all(isinstance(each, str) and each for each in topics):
        raise bad_request("topics must be a list of names; patterns are not taken.")
    for topic in topics:
        await call.caller.cluster.leaders(topic)
    if instance.identity is not None:
        await call.gateway.members.end(instance.identity)
    begin: Any = instance.begin
    instance.identity = MemberId(call.gateway.fleet.id, call.path("group"), secrets.token_hex(8), NewMember(topics, begin))
    call.gateway.members.make(instance.identity, call.caller)
    return web.Response(status=204)


TIMEOUT: Final = Parameter("timeout", "Milliseconds to wait.", "number", default=WAIT_MS, maximum=60_000)
MAX_BYTES: Final = Parameter("max_bytes", "Taken for the sake of its clients.", "number", default=1024 * 1024, minimum=0)


@operations.get(f"{INSTANCE}/records", "Read, as Confluent's REST v2", query=(TIMEOUT, MAX_BYTES), streams_in=True, listed=False)
@in_their_form
async def records(call: Call) -> web.StreamResponse:
    """What the answer before gave is committed by the next read, unless the client commits by itself."""
    instance = call.gateway.instances.of(call)
    member = _member(call, instance)
    if instance.commits_by_itself:
        await member.acknowledge(Acknowledgement())
    limit = max(1, min(RECORDS, call.query["max_bytes"] // 100))
    found = await member.read(limit, call.query["timeout"] / 1000)
    form = instance.form
    documents = [
        {
            "topic": each.place.topic,
            "key": shown(each.record.key, form)[0],
            "value": shown(each.record.value, form)[0],
            "partition": each.place.partition,
            "offset": each.record.offset,
        }
        for each in found
    ]
    return answered(documents, f"application/vnd.kafka.{form}.v2+json")


@operations.post(f"{INSTANCE}/offsets", "Commit, as Confluent's REST v2", streams_in=True, listed=False)
@in_their_form
async def commit(call: Call) -> web.StreamResponse:
    """Without a body all that was read; an offset that is named is the last one that is done with."""
    instance, body = call.gateway.instances.of(call), await body_of(call)
    try:
        done = [DonePlace(str(each["topic"]), int(each["partition"]), int(each["offset"])) for each in body.get("offsets") or ()]
    except (KeyError, TypeError, ValueError):
        raise bad_request("offsets must be a list of topic, partition and offset.") from None
    await _member(call, instance).acknowledge(Acknowledgement(done))
    return web.Response(status=200, content_type=V2)
