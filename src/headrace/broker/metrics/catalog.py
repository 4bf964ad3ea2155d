"""Every metric that a broker can tell: what the reference is made from, and what the tests go through."""

from types import ModuleType

from headrace.broker.metrics.collecting import Page
from headrace.broker.metrics.collectors import (
    client_telemetry,
    cluster,
    coordinators,
    delays,
    disk,
    network,
    partitions,
    process,
    replication,
    security,
    sharing,
    tiering,
)
from headrace.metrics.families import Family

# In the order of the reference: what it is about, and where it is declared.
SUBJECTS: dict[str, ModuleType] = {
    "Requests, connections and clients": network,
    "Clients, as they see themselves": client_telemetry,
    "Records and logs": partitions,
    "The disk": disk,
    "Tiered storage": tiering,
    "Replication": replication,
    "Groups and transactions": coordinators,
    "Delayed delivery": delays,
    "Share groups": sharing,
    "The cluster, the controller and the store of the metadata": cluster,
    "Security": security,
    "The process": process,
}
# What there may be thousands of.
MANY = {"topic", "group", "client_id"}


def families_of(module: ModuleType) -> list[Family]:
    """As they are declared, one after the other."""
    return [value for value in vars(module).values() if isinstance(value, Family)]


def page_of(family: Family) -> Page:
    """Where it is found."""
    return Page.DETAIL if MANY & set(family.labels) else Page.SUMMARY
