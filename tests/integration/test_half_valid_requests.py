"""Half-valid requests of every API and version: each is answered, and none fails in the broker.

`HEADRACE_HALF_VALID=100000` sends that many for each seed; `HEADRACE_HALF_VALID_SEED=7` begins at another seed.
"""

import asyncio
import logging
import os
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Self

import pytest

from headrace.broker.routes import APIS
from headrace.testing import Broker
from headrace.wire.apis import ApiKey, messages_of
from headrace.wire.codec import decode, encode
from headrace.wire.framing import RequestHeader, read_response_header, request_frame
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.integration.memory_cluster import MemoryCluster
from tests.support.half_valid import HalfValidRequests
from tests.support.raw import RawClient, batch, produce

REQUESTS = int(os.environ.get("HEADRACE_HALF_VALID", "900"))
FIRST_SEED = int(os.environ.get("HEADRACE_HALF_VALID_SEED", "1"))
PATIENCE_S = 0.25
TOPICS = ("events", "compacted", "orders", "later")
SETTING_NAMES = (
    "cleanup.policy",
    "segment.bytes",
    "retention.ms",
    "max.message.bytes",
    "min.insync.replicas",
    "num.partitions",
    "log.retention.ms",
    "log.cleaner.backoff.ms",
    "listeners",
    "no.such.setting",
    "headrace.delay.enable",
    "headrace.ttl.enable",
    "remote.storage.enable",
    "share.record.lock.duration.ms",
    "share.auto.offset.reset",
    "headrace.share.breaker.percent",
)
NAMES = {
    "Config.name": SETTING_NAMES,
    "configuration_keys": SETTING_NAMES,
    "Config.value": ("1", "1000000", "compact", "delete", "-1", "true", ""),
    "resource_name": (*TOPICS, "1", "", "group"),
    "entity_type": ("user", "client-id", "ip"),
    "entity_name": ("a", "b", "ann"),
    "Op.key": ("consumer_byte_rate", "producer_byte_rate", "request_percentage", "controller_mutation_rate"),
    "transactional_id": ("pay", "bill"),
    "group": ("group", "other-group"),
    "coordinator_keys": ("group", "pay"),
    "FindCoordinatorRequest.key": ("group", "pay"),
    "member_id": ("", "", "somebody"),
    "protocol_type": ("consumer",),
    "Protocol.name": ("range", "roundrobin"),
    "protocol_name": ("range", "roundrobin"),
    "assignor": ("uniform", "range"),
    "regex": ("ev.*", "(", "a{1000}"),
    "opic": TOPICS,
    "artition": TOPICS,
    "name": TOPICS,
    "": (
        *TOPICS,
        "new-topic",
        "__consumer_offsets",
        "__transaction_state",
        "__headrace_schedules",
        "group",
        "pay",
        "1",
        "",
        "uniform",
    ),
}
SETTINGS = {"headrace.partitions.max": 200}


class Seen(logging.Handler):
    """What the broker logged that is worth a look."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def failures(self) -> list[str]:
        """Errors, and connections that ended for another reason than bytes that are wrong."""
        texts = [(record.levelno, self.format(record)) for record in self.records]
        # A request may delete a topic whose files are being compacted at that moment.
        texts = [(level, text) for level, text in texts if "could not be compacted and is tried again" not in text]
        return [text for level, text in texts if level >= logging.ERROR or "failed in the broker" in text]


@contextmanager
def watching() -> Iterator[Seen]:
    seen = Seen()
    logging.getLogger().addHandler(seen)
    try:
        yield seen
    finally:
        logging.getLogger().removeHandler(seen)


class ThreeBrokers:
    """A cluster beside the test; each new connection goes to the next of its brokers."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self.cluster = MemoryCluster(3, {name: str(value) for name, value in SETTINGS.items()})
        self._turn = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self.cluster.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._do(self.cluster.__aexit__())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    @property
    def bootstrap(self) -> str:
        self._turn += 1
        host, port = self.cluster.brokers[self._turn % 3 + 1].address
        return f"{host}:{port}"


class Campaign:
    """One broker under one seed's requests."""

    def __init__(self, broker: "Broker | ThreeBrokers", seed: int, seen: Seen) -> None:
        self.source = HalfValidRequests(seed, NAMES)
        self.tally: Counter[str] = Counter()
        self._broker = broker
        self._seen = seen
        self._client = RawClient(broker.bootstrap, timeout=PATIENCE_S)
        self._number = 0

    def run(self, count: int) -> None:
        keys = sorted(APIS)
        for number in range(count):
            if number % 50 == 0:
                prepare(self._broker)
            key = self.source.chance.choice(keys)
            version = self.source.chance.choice(APIS[key].versions)
            request = self.source.message(messages_of(ApiKey(key)).request, version)
            try:
                self._send(key, version, request)
            except OSError:
                self._renew()
            assert not self._seen.failures(), f"{request} in version {version}: {self._seen.failures()[0]}"
        self._client.socket.close()

    def _send(self, key: int, version: int, request: Any) -> None:
        self._number += 1
        body = bytearray(encode(request, version))
        is_whole = self.source.chance.random() > 0.05
        if not is_whole and body:
            body[self.source.chance.randrange(len(body))] = self.source.chance.randrange(256)
        header = RequestHeader(key, version, self._number, self.source.chance.choice(("a", "b", "c" * 32_767, None)))
        self._client.send(b"".join(request_frame(header, [bytes(body)])))
        if key == ApiKey.PRODUCE and getattr(request, "acks", 1) == 0:
            self._renew()
            return
        try:
            self._take_reply(key, version)
        except TimeoutError:
            self.tally["waits"] += 1
            self._renew()
        except ConnectionError:
            assert not is_whole, f"{request} in version {version} ended its connection: {self._last_words()}"
            self.tally["closed"] += 1
            self._renew()

    def _take_reply(self, key: int, version: int) -> None:
        reply = self._client.receive()
        correlation_id, position = read_response_header(reply, key, version)
        assert correlation_id == self._number
        response = decode(messages_of(ApiKey(key)).response, reply, version, position)
        self.tally["answered"] += 1
        self.source.learn(response)

    def _renew(self) -> None:
        self._client.socket.close()
        self._client = RawClient(self._broker.bootstrap, timeout=PATIENCE_S)

    def _last_words(self) -> str:
        return self._seen.records[-1].getMessage() if self._seen.records else "without a word"


def prepare(broker: "Broker | ThreeBrokers") -> None:
    """Topics and coordinators, so that requests have something to hit."""
    delayed = tuple(CreatableTopicConfig(name=f"headrace.{each}.enable", value="true") for each in ("delay", "ttl"))
    topics = tuple(
        CreatableTopic(
            name=name,
            num_partitions=3,
            replication_factor=-1,
            assignments=(),
            configs=delayed if name == "later" else (),
        )
        for name in TOPICS
    )
    with RawClient(broker.bootstrap) as client:
        client.call(CreateTopicsRequest(topics=topics), 7)
        for key_type in (0, 1):
            client.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=("group",)), 4)
        client.call(produce("events", batch(b"a", b"b")), 9)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + 4))
def test_no_half_valid_request_fails_in_the_broker(seed: int) -> None:
    settings = {**SETTINGS, "headrace.audit": "on" if seed % 2 else "off"}
    with watching() as seen, Broker(settings=settings, memory=seed % 4 != 0) as broker:
        campaign = Campaign(broker, seed, seen)

        campaign.run(REQUESTS)

        print(dict(campaign.tally))
        assert campaign.tally["answered"] > REQUESTS / 2
    assert not seen.failures()


def test_no_half_valid_request_fails_in_a_cluster() -> None:
    with watching() as seen, ThreeBrokers() as cluster:
        campaign = Campaign(cluster, FIRST_SEED, seen)

        campaign.run(REQUESTS)

        print(dict(campaign.tally))
        assert campaign.tally["answered"] > REQUESTS / 2
    assert not seen.failures()
