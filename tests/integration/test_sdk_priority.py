"""Reading several topics by priority."""

from collections import Counter
from collections.abc import Iterator

import pytest

from headrace import InvalidArgument, PriorityConsumer, Producer
from headrace.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        with Producer(broker.bootstrap) as producer:
            producer.send_many("urgent", (f"urgent {n}" for n in range(60)))
            producer.send_many("jobs", (f"jobs {n}" for n in range(60)))
            producer.send_many("rest", (f"rest {n}" for n in range(60)))
        yield broker


def test_each_topic_has_its_share_in_its_own_order_and_none_starves(broker: Broker) -> None:
    weights = {"urgent": 6, "jobs": 3, "rest": 1}
    with PriorityConsumer(weights, bootstrap=broker.bootstrap, group="shares", values=str) as consumer:
        # Until all of them have joined, those that have are read.
        found = [record.value for _, record in zip(range(180), consumer.records(timeout=20), strict=False)]

    assert Counter(value.split()[0] for value in found) == {"urgent": 60, "jobs": 60, "rest": 60}
    for topic in weights:
        assert [value for value in found if value.startswith(topic)] == [f"{topic} {n}" for n in range(60)]
    together = found[found.index("rest 0") :]
    if "urgent 0" in together or len([value for value in together if value.startswith("urgent")]) >= 12:
        first = Counter(value.split()[0] for value in together[:20])
        assert first["urgent"] > first["jobs"] > first["rest"] > 0


def test_what_was_not_handed_out_is_read_by_the_next(broker: Broker) -> None:
    weights = {"urgent": 2, "jobs": 1}
    seen: list[str] = []
    for _ in range(3):
        with PriorityConsumer(weights, bootstrap=broker.bootstrap, group="next", values=str) as consumer:
            seen += [record.value for _, record in zip(range(40), consumer, strict=False)]

    assert sorted(seen) == sorted(f"{topic} {n}" for topic in weights for n in range(60))


def test_what_failed_is_read_again(broker: Broker) -> None:
    def fail() -> str:
        with PriorityConsumer({"urgent": 1}, bootstrap=broker.bootstrap, group="fails", values=str) as consumer:
            for record in consumer:
                raise LookupError(record.value)
        return ""

    for _ in range(2):
        with pytest.raises(LookupError, match="urgent 0"):
            fail()


def test_wrong_weights_are_named_at_once() -> None:
    with pytest.raises(InvalidArgument, match="weights"):
        PriorityConsumer({})
    with pytest.raises(InvalidArgument, match=r"weights\['jobs'\]=0"):
        PriorityConsumer({"jobs": 0})
    with pytest.raises(InvalidArgument, match="instance_id is not accepted"):
        PriorityConsumer({"jobs": 1}, instance_id="a")
