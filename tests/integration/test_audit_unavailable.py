"""What becomes of acts where the audit trail cannot be written, is elsewhere, or is copied; and its settings."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.app import Broker as RealBroker
from headrace.broker.audit import trail
from headrace.broker.partitions.partition import Partition
from headrace.model.access.principals import Subject
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.names import AUDIT
from headrace.model.settings import SettingError
from headrace.security.audit.events import Origin
from headrace.testing import Broker
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.integration.memory_cluster import MemoryCluster, play
from tests.support.audit import events_in, events_of, resources_of
from tests.support.process import BrokerProcess
from tests.support.raw import RawClient
from tests.support.waiting import until

ON = {"headrace.audit": "on"}


def creation(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
    return CreateTopicsRequest(topics=(topic,), timeout_ms=10_000)


def create(broker: Broker, name: str) -> Any:
    with RawClient(broker.bootstrap) as client:
        return client.call(creation(name), 7).topics[0]


def created(broker: Broker) -> list[str]:
    return [resource.removeprefix("TOPIC ") for event in events_of(broker) for resource in resources_of(event)]


@contextmanager
def unwritable(broker: Broker) -> Iterator[None]:
    """Too few replicas are in sync for as long as this lasts."""

    def refuse() -> None:
        raise RequestError(ErrorCode.NOT_ENOUGH_REPLICAS)

    def partition_of(real: RealBroker) -> Partition:
        return real.parts.replicas.find(AUDIT, 0)

    broker.run(lambda real: setattr(partition_of(real), "require_replicas", refuse))
    try:
        yield
    finally:
        broker.run(lambda real: delattr(partition_of(real), "require_replicas"))


def test_without_security_nothing_is_recorded_unless_it_is_asked_for() -> None:
    with Broker() as quiet, Broker(settings=ON) as told, Broker(settings={"authorizer": "acl", "headrace.audit": "off"}) as off:
        assert create(quiet, "a").error_code == create(told, "a").error_code == ErrorCode.NONE
        assert off.broker is not None
        assert off.broker.parts.audit is None

        assert created(quiet) == []
        assert created(told) == ["a"]


def test_an_act_that_cannot_be_recorded_is_refused_and_not_done() -> None:
    with Broker(settings={**ON, "headrace.audit.timeout.ms": 200}) as broker:
        create(broker, "first")

        with unwritable(broker):
            refused = create(broker, "second")

        assert refused.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert refused.error_message is not None
        assert refused.error_message.startswith("Nothing was done: the audit trail cannot be written")
        assert broker.broker is not None
        assert "second" not in broker.broker.image.topics
        assert create(broker, "second").error_code == ErrorCode.NONE
        assert created(broker) == ["first", "second"]


def test_an_act_whose_record_is_late_is_told_so_and_recorded_once_that_is_possible() -> None:
    with Broker(settings={**ON, "headrace.audit.timeout.ms": 200}) as broker:
        create(broker, "first")
        broker.run(lambda real: setattr(real.parts.replicas.find(AUDIT, 0), "advance", lambda: None))

        late = create(broker, "second")
        next_one = create(broker, "third")

        assert late.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert (late.error_message or "").startswith("It was done, but is not in the audit trail yet")
        assert (next_one.error_message or "").startswith("Nothing was done"), "nobody goes on before what was done is recorded"
        assert broker.broker is not None
        assert "third" not in broker.broker.image.topics
        broker.run(lambda real: delattr(real.parts.replicas.find(AUDIT, 0), "advance"))
        until(lambda: "second" in created(broker), "the act is recorded")


def test_a_trail_that_cannot_be_written_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trail, "END_SECONDS_MAX", 0.2)
    with Broker(settings=ON) as broker:
        create(broker, "first")

        async def end() -> float:
            real = broker.broker
            assert real is not None
            assert real.parts.audit is not None
            real.parts.audit.note_failed_sign_in(Origin(subject=Subject()), "PLAIN", "the user or the password is wrong")
            await asyncio.sleep(0.05)  # whoever writes it is at it by then
            began = real.loop.time()
            await real.parts.audit.close()
            return real.loop.time() - began

        with unwritable(broker):
            assert broker.call(end()) < 5
        assert "1 events of the audit trail could not be written before the end" in caplog.text


def test_acts_may_be_allowed_that_are_recorded_later() -> None:
    with Broker(settings={**ON, "headrace.audit.when.unavailable": "allow", "headrace.audit.timeout.ms": 200}) as broker:
        create(broker, "first")

        with unwritable(broker):
            assert create(broker, "second").error_code == ErrorCode.NONE
            assert "second" not in created(broker)

        until(lambda: created(broker) == ["first", "second"], "what was done meanwhile is recorded")


def test_an_act_is_not_answered_before_it_is_durable() -> None:
    with Broker(settings=ON) as broker, RawClient(broker.bootstrap, timeout=0.3) as client:
        create(broker, "first")
        broker.run(lambda real: setattr(real.parts.replicas.find(AUDIT, 0), "advance", lambda: None))

        client.send_request(creation("second"), 7)
        with pytest.raises(TimeoutError):
            client.receive()

        broker.run(lambda real: delattr(real.parts.replicas.find(AUDIT, 0), "advance"))
        broker.run(lambda real: real.parts.replicas.find(AUDIT, 0).advance())
        client.socket.settimeout(10)
        client.receive()


def test_what_was_answered_is_in_the_trail_though_the_broker_was_killed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", arguments=("--set", "headrace.audit=on")) as process:
        for name in ("one", "two"):
            with RawClient(process.bootstrap) as client:
                assert client.call(creation(name), 7).topics[0].error_code == ErrorCode.NONE
            process.kill()
            process.start()
        process.kill()

    with Broker(data=tmp_path / "data", settings=ON) as broker:
        assert created(broker) == ["one", "two"]


def test_each_broker_of_a_cluster_records_what_it_did_and_nobody_else_does() -> None:
    async def story() -> None:
        async with MemoryCluster(3, ON) as cluster:
            for broker_id in (1, 2, 3, 1, 2, 3):
                reply = await cluster.call(broker_id, creation(f"topic-{broker_id}"), 7)
                assert reply.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            state = cluster.image.topics[AUDIT].partitions[0]
            events = events_in(cluster.brokers[state.leader])

            assert len(state.replicas) == 3
            assert cluster.image.topics[AUDIT].configs["min.insync.replicas"] == "2"
            assert [(event["metadata"]["log_provider"], *resources_of(event)) for event in events] == [
                (f"broker {broker_id}", f"TOPIC topic-{broker_id}") for broker_id in (1, 2, 3, 1, 2, 3)
            ]
            assert len({event["metadata"]["uid"] for event in events}) == 6

    play(story)


def test_the_number_of_replicas_and_how_long_they_keep_it_are_settings() -> None:
    async def story() -> None:
        settings = {**ON, "headrace.audit.topic.replication.factor": "2", "headrace.audit.topic.retention.ms": "5000"}
        async with MemoryCluster(3, settings) as cluster:
            await cluster.call(1, creation("a"), 7)
            topic = cluster.image.topics[AUDIT]

            assert topic.replication_factor == 2
            assert topic.configs["retention.ms"] == "5000"

    play(story)


def test_an_act_does_not_hang_while_nobody_leads_the_trail() -> None:
    async def story() -> None:
        settings = {**ON, "headrace.audit.topic.replication.factor": "1", "headrace.audit.timeout.ms": "300"}
        async with MemoryCluster(2, settings) as cluster:
            await cluster.call(1, creation("a"), 7)
            leader = cluster.image.topics[AUDIT].partitions[0].leader
            await cluster.brokers.pop(leader).stop()
            (other,) = cluster.brokers

            reply = await cluster.call(other, creation("b"), 7)

            assert reply.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
            assert AUDIT in reply.topics[0].error_message
            assert "b" not in cluster.image.topics

    play(story)


def test_a_trail_that_moves_takes_along_what_was_recorded() -> None:
    async def story() -> None:
        async with MemoryCluster(3, ON) as cluster:
            await cluster.call(1, creation("a"), 7)
            leader = cluster.image.topics[AUDIT].partitions[0].leader
            await cluster.brokers.pop(leader).stop()
            (asked, *_) = cluster.brokers

            reply = await cluster.call(asked, creation("b"), 7)

            assert reply.topics[0].error_code == ErrorCode.NONE
            state = cluster.image.topics[AUDIT].partitions[0]
            assert [resources_of(event) for event in events_in(cluster.brokers[state.leader])] == [["TOPIC a"], ["TOPIC b"]]

    play(story)


# --- copies -------------------------------------------------------------------------------------------------------------------


def lines_of(path: Path) -> list[str]:
    return [resources_of(json.loads(line))[0] for line in path.read_text().splitlines()] if path.exists() else []


def test_every_event_is_a_line_in_a_file_too_and_a_file_that_is_moved_away_is_made_anew(tmp_path: Path) -> None:
    path, old = tmp_path / "audit.log", tmp_path / "audit.log.1"
    with Broker(settings={**ON, "headrace.audit.file": str(path)}) as broker:
        create(broker, "a")
        until(lambda: lines_of(path) == ["TOPIC a"], "the event is in the file")
        path.rename(old)
        create(broker, "b")

    assert (lines_of(old), lines_of(path)) == (["TOPIC a"], ["TOPIC b"])
    assert path.stat().st_mode & 0o077 == 0


def test_a_file_that_cannot_be_written_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"headrace\.audit\.file: .* cannot be written"):
        Broker(settings={**ON, "headrace.audit.file": str(tmp_path / "missing" / "audit.log")}).start()


@pytest.mark.parametrize("kind", ["udp", "tcp", "socket"])
def test_every_event_goes_to_a_syslog_too(tmp_path: Path, kind: str) -> None:
    family = socket.AF_UNIX if kind == "socket" else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as syslog:
        syslog.bind(str(tmp_path / "log") if kind == "socket" else ("127.0.0.1", 0))
        syslog.settimeout(20)
        if kind == "tcp":
            syslog.listen()
        where = str(tmp_path / "log") if kind == "socket" else f"{kind}://127.0.0.1:{syslog.getsockname()[1]}"
        with Broker(settings={**ON, "headrace.audit.syslog": where}) as broker:
            create(broker, "a")
            message = _line(syslog) if kind == "tcp" else syslog.recv(65536)

    assert message.startswith(b"<85>headrace[" if kind == "socket" else b"<85>1 ")
    assert resources_of(json.loads(message[message.index(b"{") :])) == ["TOPIC a"]


def _line(listening: socket.socket) -> bytes:
    connection, _ = listening.accept()
    with connection, connection.makefile("rb") as lines:
        return lines.readline()


def test_a_syslog_that_is_away_holds_nobody_up(tmp_path: Path) -> None:
    with Broker(settings={**ON, "headrace.audit.syslog": str(tmp_path / "nobody")}) as broker:
        assert create(broker, "a").error_code == ErrorCode.NONE


def test_where_no_syslog_can_be_is_said_at_the_start() -> None:
    with pytest.raises(SettingError, match=r"headrace\.audit\.syslog is 'http://x'"):
        Broker(settings={**ON, "headrace.audit.syslog": "http://x"}).start()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "compact"),
        ("max.message.bytes", "10"),
        ("retention.bytes", "1"),
        ("retention.ms", "1"),
        ("retention.ms", None),
        ("unclean.leader.election.enable", "true"),
    ],
)
def test_nobody_shortens_the_trail_or_makes_it_unwritable_by_its_settings(name: str, value: str | None) -> None:
    with Broker(settings=ON) as broker, RawClient(broker.bootstrap) as client:
        create(broker, "first")
        assert broker.broker is not None
        before = broker.broker.image.topics[AUDIT].configs

        reply = client.call(setting_of_audit(name, value), 1).responses[0]

        assert reply.error_code == ErrorCode.INVALID_CONFIG
        assert (reply.error_message or "").startswith("__audit is internal; its ")
        assert broker.broker.image.topics[AUDIT].configs == before


@pytest.mark.parametrize(
    ("name", "value"),
    [("retention.ms", "-1"), ("retention.ms", "9999999999"), ("retention.bytes", "-1"), ("min.insync.replicas", "1")],
)
def test_the_trail_may_be_kept_longer(name: str, value: str) -> None:
    with Broker(settings=ON) as broker, RawClient(broker.bootstrap) as client:
        create(broker, "first")

        assert client.call(setting_of_audit(name, value), 1).responses[0].error_code == ErrorCode.NONE
        assert broker.broker is not None
        assert broker.broker.image.topics[AUDIT].configs[name] == value


def setting_of_audit(name: str, value: str | None) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name=name, config_operation=0 if value is not None else 1, value=value)
    return IncrementalAlterConfigsRequest(
        resources=(AlterConfigsResource(resource_type=2, resource_name=AUDIT, configs=(config,)),), validate_only=False
    )
