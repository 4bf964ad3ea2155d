"""Settings that one group may have of its own (KIP-848), with the broker's settings that give their defaults and limits.

Names are Kafka's.  Those of share and streams groups join the table with the groups themselves.
"""

from collections.abc import Mapping

from headrace.model.broker_settings import BROKER_SETTINGS, BrokerConfig
from headrace.model.settings import Setting, SettingError, SettingTable

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"


def _of_consumers(name: str) -> Setting:
    """A group's own form of `group.<name>`."""
    broker = BROKER_SETTINGS[f"group.{name}"]
    return Setting(
        name=name,
        kind=broker.kind,
        default=broker.default,
        doc=broker.doc,
        minimum=broker.minimum,
        synonyms=(broker.name,),
        dynamic=True,
    )


GROUP_SETTINGS = SettingTable(_of_consumers(name) for name in (ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT))

# Where a value must lie: the broker's settings with the least and the largest one.
_LIMITS = {
    name: (
        f"group.{name.replace('consumer.', 'consumer.min.', 1)}",
        f"group.{name.replace('consumer.', 'consumer.max.', 1)}",
    )
    for name in (ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT)
}


def check_group_settings(texts: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raise SettingError where a setting is unknown, wrong, or beyond what the broker allows to any group."""
    values = GROUP_SETTINGS.parse(texts)
    for name, value in values.items():
        least, largest = _LIMITS[name]
        assert isinstance(value, int)
        if value < broker[least]:
            raise SettingError(f"{name} must be greater than or equal to {least}, which is {broker[least]}")
        if value > broker[largest]:
            raise SettingError(f"{name} must be less than or equal to {largest}, which is {broker[largest]}")
    session, heartbeat = (values.get(name, broker[f"group.{name}"]) for name in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL))
    if session <= heartbeat:
        raise SettingError(f"{SESSION_TIMEOUT}={session} must be greater than {HEARTBEAT_INTERVAL}, which is {heartbeat}")
