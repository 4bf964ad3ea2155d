"""Which brokers take no records since their disks are full.

A producer does not hear of it: the broker's refusal is one that the client library tries again, without a word, until its own
time-out.  So whoever has waited for a while asks the brokers themselves.
"""

from collections.abc import Mapping
from typing import Any

from headrace.client.admin.wire_admin import WireAdmin
from headrace.client.errors import HeadraceError
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

DEGRADED = "headrace.degraded"
BROKER_RESOURCE = 4
FULL = "disk is full"
SECONDS_MAX = 2.0


def full_disks(bootstrap: str, config: Mapping[str, Any] | None = None) -> dict[int, str]:
    """By broker, what it says of its full disk; nothing of those that do not answer soon, or not to us."""
    found = {}
    try:
        with WireAdmin(bootstrap, config, timeout_s=SECONDS_MAX) as admin:
            for broker in sorted(admin.brokers()):
                said = _degradation(admin, broker)
                if said.startswith(FULL):
                    found[broker] = said
    except HeadraceError:
        pass
    return found


def in_words(disks: dict[int, str]) -> str:
    """A sentence without its full stop."""
    return "; ".join(f"the disk of broker {broker} is full{said.removeprefix(FULL)}" for broker, said in disks.items())


def _degradation(admin: WireAdmin, broker: int) -> str:
    resource = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name=str(broker), configuration_keys=(DEGRADED,))
    answer = admin.call(DescribeConfigsRequest(resources=(resource,)), broker=broker)
    return next((config.value or "" for config in answer.results[0].configs if config.name == DEGRADED), "")
