"""A broker's settings as they are now: some are altered while it runs, and whoever works with them looks each time."""

from headrace.model.broker_settings import BrokerConfig


class LiveConfig:
    """Whoever holds this sees each alteration; a `BrokerConfig` is what held at one moment."""

    __slots__ = ("now",)

    def __init__(self, now: BrokerConfig) -> None:
        self.now = now

    def __repr__(self) -> str:
        return f"LiveConfig({self.now!r})"
