"""A broker's settings as they are now: some are altered while it runs, and whoever works with them looks each time."""

from typing import NamedTuple

from headrace.model.broker_settings import BrokerConfig, setting_named


class LiveConfig:
    """Whoever holds this sees each alteration; a `BrokerConfig` is what held at one moment."""

    __slots__ = ("now",)

    def __init__(self, now: BrokerConfig) -> None:
        self.now = now

    def __repr__(self) -> str:
        return f"LiveConfig({self.now!r})"


class Reloaded(NamedTuple):
    """Settings that were read again while the broker runs."""

    config: BrokerConfig
    taken_up: list[str]
    wait_for_restart: list[str]


def reloaded_settings(now: BrokerConfig, read: BrokerConfig) -> Reloaded:
    """What was given at the start, with what can change while the broker runs as it is given now.  Raises SettingError."""
    changed = sorted(name for name in {*now.given, *read.given} if now.given.get(name) != read.given.get(name))
    taken_up = [name for name in changed if setting_named(name).dynamic]
    kept = {name: text for name, text in now.given.items() if name not in taken_up}
    given = kept | {name: read.given[name] for name in taken_up if name in read.given}
    return Reloaded(BrokerConfig(given, now.altered), taken_up, [name for name in changed if name not in taken_up])
