"""What brokers log, and what clients are asked for of their own metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from headrace.client.admin.wire_admin import raise_for
from headrace.gateway.administration.cluster import show_broker
from headrace.gateway.administration.wire import change_settings_of, settings_of
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations, Parameter
from headrace.gateway.api.paging import PAGE, page
from headrace.gateway.api.shapes import described
from headrace.gateway.serving.problems import not_found
from headrace.wire.messages.list_config_resources import ListConfigResourcesRequest

operations = Operations("telemetry")
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
METRICS, INTERVAL_MS, MATCH = "metrics", "interval.ms", "match"


@dataclass(frozen=True, slots=True)
class Loggers:
    """The levels of a broker's loggers."""

    loggers: dict[str, str]


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """How much a logger tells; default is as much as the one above it."""

    level: Literal["FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "default"]


@dataclass(frozen=True, slots=True)
class NewClientMetrics:
    """Which clients are asked for what (KIP-714)."""

    metrics: Annotated[list[str], described("Metrics whose names begin so; all of them when empty.", maxItems=100)] = field(
        default_factory=list
    )
    interval_ms: Annotated[int, described("How often they tell it.", minimum=100, maximum=3_600_000)] = 60_000
    match: Annotated[
        dict[str, str], described("Only clients that match, by client_id and others.", example={"client_id": "billing.*"})
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClientMetrics:
    """What is asked for under a name."""

    name: str
    settings: dict[str, str]


@dataclass(frozen=True, slots=True)
class ClientMetricsPage:
    """Some of what clients are asked for, and where the next page begins."""

    client_metrics: list[ClientMetrics]
    next: str | None


PREFIX = Parameter("prefix", "Only loggers whose names begin so.")


@operations.get("/brokers/{broker}/loggers", "Show what a broker logs", query=(PREFIX,), answer=Loggers)
async def show_loggers(call: Call) -> Loggers:
    broker = await show_broker(call)
    found = await settings_of(call, BROKER_LOGGER, str(broker.id), broker.id)
    return Loggers({each.name: each.value or "" for each in found if each.name.startswith(call.query["prefix"] or "")})


@operations.put("/brokers/{broker}/loggers/{logger}", "Change what a broker logs", body=LoggerLevel)
async def set_level(call: Call) -> None:
    """It holds at once and until the broker ends; it is not written down."""
    broker, level = await show_broker(call), call.body.level
    changes = {call.path("logger"): None if level == "default" else level}
    await change_settings_of(call, BROKER_LOGGER, str(broker.id), changes, broker.id)


async def _names(call: Call) -> list[str]:
    reply = await call.caller.cluster.call(ListConfigResourcesRequest(resource_types=(CLIENT_METRICS,)))
    raise_for(reply.error_code, "client metrics")
    return sorted(each.resource_name for each in reply.config_resources)


async def _shown(call: Call, name: str) -> ClientMetrics:
    return ClientMetrics(name, {each.name: each.value or "" for each in await settings_of(call, CLIENT_METRICS, name)})


@operations.get("/client-metrics", "List what clients are asked for", query=PAGE, answer=ClientMetricsPage)
async def list_client_metrics(call: Call) -> ClientMetricsPage:
    names, following = page(await _names(call), call.query)
    return ClientMetricsPage([await _shown(call, name) for name in names], following)


@operations.put("/client-metrics/{name}", "Ask clients for their metrics", body=NewClientMetrics, answer=ClientMetrics)
async def set_client_metrics(call: Call) -> ClientMetrics:
    """Clients learn of it when they next ask, within five minutes at the most."""
    name, wanted = call.path("name"), call.body
    match = ",".join(f"{each}={pattern}" for each, pattern in wanted.match.items())
    changes = {METRICS: ",".join(wanted.metrics) or "*", INTERVAL_MS: str(wanted.interval_ms), MATCH: match or None}
    await change_settings_of(call, CLIENT_METRICS, name, changes)
    return await _shown(call, name)


@operations.delete("/client-metrics/{name}", "Stop asking")
async def delete_client_metrics(call: Call) -> None:
    name = call.path("name")
    if name not in await _names(call):
        raise not_found(
            "client_metrics_not_found", "Clients are asked for nothing by this name.", "GET /client-metrics lists all."
        )
    await change_settings_of(call, CLIENT_METRICS, name, {METRICS: None, INTERVAL_MS: None, MATCH: None})
