"""Values of settings are read as Kafka reads them, and a broker's have to fit together."""

import pytest

from headrace.model.broker_settings import BROKER_SETTINGS, BrokerConfig
from headrace.model.settings import INT_MAX, LONG_MAX, Kind, Setting, SettingError


def setting(kind: Kind) -> Setting:
    return Setting(name="it", kind=kind, default=None, doc="")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Kind.INT, "+9", 9),
        (Kind.INT, " 9\t", 9),
        (Kind.INT, "-0", 0),
        (Kind.INT, "٩", 9),
        (Kind.INT, str(INT_MAX), INT_MAX),
        (Kind.LONG, str(LONG_MAX), LONG_MAX),
        (Kind.SHORT, "-32768", -32768),
        (Kind.DOUBLE, "0.5f", 0.5),
        (Kind.DOUBLE, ".5", 0.5),
        (Kind.DOUBLE, "1e-1", 0.1),
        (Kind.BOOLEAN, " TRUE ", True),
    ],
)
def test_what_kafka_reads_is_read(kind: Kind, text: str, value: object) -> None:
    assert setting(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *[(kind, text) for kind in (Kind.SHORT, Kind.INT, Kind.LONG) for text in ("1_000", "", "1.0", "1e3", "0x10", "\u00a09")],
        (Kind.SHORT, "32768"),
        (Kind.INT, str(INT_MAX + 1)),
        (Kind.LONG, str(-LONG_MAX - 2)),
        *[(Kind.DOUBLE, text) for text in ("nan", "inf", "1_0", "", ".", "5ff")],
        (Kind.BOOLEAN, "yes"),
    ],
)
def test_what_kafka_does_not_read_is_refused(kind: Kind, text: str) -> None:
    with pytest.raises(SettingError, match="it="):
        setting(kind).parse(text)


@pytest.mark.parametrize("kind", ["session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"])
def test_what_groups_get_has_to_lie_within_what_they_may_set(kind: str) -> None:
    name, least, most = f"group.consumer.{kind}", f"group.consumer.min.{kind}", f"group.consumer.max.{kind}"
    high = BROKER_SETTINGS[most].default
    assert isinstance(high, int)

    if high < 15_000 or kind != "assignment.interval.ms":  # the other is bounded by itself, too
        with pytest.raises(SettingError, match=f"{name}={high + 1} is not between"):
            BrokerConfig({name: str(high + 1)})
    with pytest.raises(SettingError, match=f"{name}=.* is not between"):
        BrokerConfig({least: str(high - 1)})
    with pytest.raises(SettingError, match=f"{least}={high} is above {most}={high - 1}"):
        BrokerConfig({least: str(high), most: str(high - 1)})
    BrokerConfig({least: "1", name: "10", most: "100"})
