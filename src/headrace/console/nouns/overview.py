"""The cluster at a glance: how it is in a sentence, what is wrong, the figures of now, and those of the last day."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from aiohttp import web

from headrace.client.errors import HeadraceError
from headrace.console.messages.operations import send, stream
from headrace.console.nouns.visible import View, view_of
from headrace.console.reach import console_of
from headrace.console.watching.history import SLOT_S
from headrace.console.watching.snapshot import Snapshot
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations, Parameter
from headrace.gateway.serving.problems import Problem

operations = Operations("console overview")

LAG_MANY: Final = 100_000
DISK_FULL: Final = 0.9
SERIES: Final = Parameter("series", "cluster/NAME, topic/TOPIC/NAME or group/GROUP/NAME.", required=True)
SECONDS: Final = Parameter("seconds", "How far back.", "number", default=3600, minimum=60, maximum=86_400)
HEARTBEAT_S: Final = 15.0
LOOK_S: Final = 1.0  # how soon it is noticed that the gateway stops


@operations.get("/console/api/overview", "The cluster at a glance", listed=False)
async def overview(call: Call) -> dict[str, Any]:
    return _overview(await view_of(call), console_of(call).sampler.trouble)


@operations.get("/console/api/live", "The cluster as it changes", answer_media="text/event-stream", listed=False)
async def live(call: Call) -> web.StreamResponse:
    """The overview, as server-sent events, whenever there is a newer one.  While no broker answers, the stream goes on."""
    console = console_of(call)
    response = await stream(call)
    shown, said = None, 0.0
    try:
        while not call.gateway.is_stopping:
            newest = await _newest(call)
            mark = None if newest is None else (newest["at"], console.sampler.trouble)
            if mark != shown or time.monotonic() - said > HEARTBEAT_S:
                await send(call, response, newest)
                shown, said = mark, time.monotonic()
            await console.sampler.next(LOOK_S)
    except (ConnectionError, TimeoutError):
        pass  # it has gone, or does not read
    return response


async def _newest(call: Call) -> dict[str, Any] | None:
    try:
        return _overview(await view_of(call), console_of(call).sampler.trouble)
    except (Problem, HeadraceError):
        return None


def _overview(view: View, trouble: str | None) -> dict[str, Any]:
    snapshot = view.snapshot
    troubles = [
        *([{"severity": "warning", "text": trouble, "advice": "", "link": ""}] if trouble else []),
        *troubles_of(snapshot),
    ]
    topics = [topic for topic in snapshot.topics.values() if not topic.internal]
    return {
        "at": snapshot.at,
        "cluster": snapshot.cluster_id,
        "health": _sentence(snapshot, troubles),
        "is_well": not any(each["severity"] == "serious" for each in troubles),
        "troubles": troubles,
        "figures": view.figures,
        "counts": {
            "brokers": len(snapshot.brokers),
            "topics": len(topics),
            "partitions": sum(topic.partitions for topic in topics),
            "groups": len(snapshot.groups),
            "records": sum(topic.end - topic.first for topic in topics),
            "bytes": sum(topic.bytes or 0 for topic in topics) if snapshot.has_disks else None,
        },
        "busiest": _busiest(view),
        "behind": _behind(snapshot),
        "disks": [
            {"broker": broker.id, "directory": disk.directory, "total": disk.total, "free": disk.free, "failed": disk.is_failed}
            for broker in snapshot.brokers.values()
            for disk in broker.disks
        ],
    }


def _busiest(view: View) -> list[dict[str, Any]]:
    seen = [name for name in view.rates if name in view.snapshot.topics and not view.snapshot.topics[name].internal]
    return [{"topic": name, "rate": view.rates[name]} for name in sorted(seen, key=lambda name: -view.rates[name])[:5]]


def _behind(snapshot: Snapshot) -> list[dict[str, Any]]:
    groups = sorted((group for group in snapshot.groups.values() if group.lag), key=lambda group: -(group.lag or 0))
    return [{"group": group.name, "kind": group.kind, "lag": group.lag, "state": group.state} for group in groups[:5]]


def troubles_of(snapshot: Snapshot) -> list[dict[str, str]]:
    """What somebody should look at, the worst first."""
    found: list[dict[str, str]] = []

    def tell(severity: str, text: str, advice: str, link: str) -> None:
        found.append({"severity": severity, "text": text, "advice": advice, "link": link})

    if leaderless := sum(topic.leaderless for topic in snapshot.topics.values()):
        tell("serious", f"{_count(leaderless, 'partition')} without a leader.", "Start the brokers that have them.", "/brokers")
    if snapshot.controller < 0:
        tell("serious", "There is no controller.", "Look whether the brokers reach their metadata.", "/brokers")
    if behind := sum(topic.under_replicated for topic in snapshot.topics.values()):
        text = f"{_count(behind, 'partition')} with fewer copies in sync than there should be."
        tell("warning", text, "A broker may be down or slow.", "/brokers")
    for broker in snapshot.brokers.values():
        for disk in broker.disks:
            if disk.is_failed:
                tell("serious", f"The disk {disk.directory} of broker {broker.id} has failed.", "Replace it.", "/brokers")
            elif disk.total and 1 - (disk.free or 0) / disk.total > DISK_FULL:
                full = round(100 * (1 - (disk.free or 0) / disk.total))
                tell(
                    "warning", f"The disk of broker {broker.id} is {full} % full.", "Make room, or shorten retention.", "/brokers"
                )
    for group in sorted(snapshot.groups.values(), key=lambda each: -(each.lag or 0)):
        if (group.lag or 0) > LAG_MANY:
            text = f"Group {group.name} is {group.lag:,} records behind."
            tell("warning", text, "Look at its members.", f"/groups/{group.name}")
    return found


def _sentence(snapshot: Snapshot, troubles: list[dict[str, str]]) -> str:
    serious = [each for each in troubles if each["severity"] == "serious"]
    if serious:
        return serious[0]["text"] if len(serious) == 1 else f"{len(serious)} things need somebody now."
    if troubles:
        return (
            "It works, with something to look at." if len(troubles) == 1 else f"It works, with {len(troubles)} things to look at."
        )
    return f"All is well: {_count(len(snapshot.brokers), 'broker')}, every partition has its leader and all its copies."


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


@operations.get("/console/api/history", "Figures of the last day", query=(SERIES, SECONDS), listed=False)
async def history(call: Call) -> dict[str, Any]:
    """Of topics and groups, those that the caller sees."""
    name, now = call.query["series"], time.time()
    kind, _, rest = name.partition("/")
    if kind != "cluster":
        snapshot = (await view_of(call)).snapshot
        seen = snapshot.topics if kind == "topic" else snapshot.groups
        if rest.rpartition("/")[0] not in seen:
            return {"series": name, "step": SLOT_S, "points": []}
    kept = console_of(call).sampler.history
    points = await asyncio.to_thread(kept.read, name, now, call.query["seconds"])
    return {"series": name, "step": SLOT_S, "points": points}
