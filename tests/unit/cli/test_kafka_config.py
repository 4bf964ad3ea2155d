"""A `server.properties` of Kafka starts a broker here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.failure import Failure
from headrace.cli.node.kafka_config import parse_properties, read_kafka_config, translated
from headrace.cli.node.settings import collect
from headrace.model.broker_settings import BrokerConfig
from headrace.model.listeners import read_listeners

COMBINED = """
# As a combined broker and controller has it.
process.roles=broker,controller
node.id=4
controller.quorum.voters=4@localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
num.network.threads=3
log.dirs={directory}
num.partitions=6
log.retention.hours=48
log.segment.bytes=1073741824
"""


def test_the_file_of_a_combined_broker_is_taken_without_its_controller(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(COMBINED.format(directory=tmp_path / "logs"))

    config = BrokerConfig(collect(None, {"HEADRACE_NUM_PARTITIONS": "7"}, {}, file))

    assert config["node.id"] == 4
    assert config["num.partitions"] == 7  # the environment is stronger
    assert config.topic_defaults().retention_ms == 48 * 3_600_000
    assert [(each.name, str(each.advertised)) for each in read_listeners(config).each] == [("PLAINTEXT", "localhost:9092")]
    assert read_kafka_config(file).not_used == ["controller.listener.names", "controller.quorum.voters", "process.roles"]


def test_older_names_are_understood_and_newer_ones_win() -> None:
    assert translated({"broker.id": "2", "log.dir": "a"}).given == {"node.id": "2", "log.dirs": "a"}
    assert translated({"broker.id": "2", "node.id": "3"}).given == {"node.id": "3"}


def test_brokers_come_to_each_other_by_the_protocol_that_the_file_says() -> None:
    given = {"listeners": "PLAINTEXT://h:1,SSL://h:2", "security.inter.broker.protocol": "SSL"}

    assert read_listeners(BrokerConfig(translated(given).given)).inter_broker == "SSL"
    assert translated(given).not_used == []


def test_a_file_with_a_secret_is_refused_where_others_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("ssl.key.password=hidden\n")
    file.chmod(0o644)

    with pytest.raises(Failure, match=r"--kafka-config .* others may read it; run: chmod 600"):
        collect(None, {}, {}, file)


def test_a_value_that_cannot_be_is_refused_with_the_name_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=many\n")

    with pytest.raises(Failure, match=r"num\.partitions.*server\.properties"):
        collect(None, {}, {}, file)


def test_a_directory_with_kafkas_own_data_is_refused(tmp_path: Path, headrace: Callable[..., Any]) -> None:
    (tmp_path / "logs" / "__cluster_metadata-0").mkdir(parents=True)
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={tmp_path / 'logs'}\nlisteners=PLAINTEXT://127.0.0.1:0\n")

    refused = headrace("serve", "--kafka-config", str(file))

    assert refused.code == 1
    assert "holds the data of a Kafka broker" in refused.remarks


def test_several_directories_are_refused(headrace: Callable[..., Any]) -> None:
    refused = headrace("serve", "--set", "log.dirs=a,b", "--listen", "127.0.0.1:0")

    assert refused.code == 1
    assert "log.dirs names several directories, and a broker has one" in refused.remarks


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1\nb = 2\nc: 3\nd 4\n", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# no\n! neither\n\n  a=1", {"a": "1"}),
        ("a=1,\\\n    2\nb=3", {"a": "1,2", "b": "3"}),
        ("a=c:\\\\x\\\\", {"a": "c:\\x\\"}),
        ("a\\=b=\\u00fcx\\ty", {"a=b": "üx\ty"}),
        ("a=", {"a": ""}),
        ("a=x=y", {"a": "x=y"}),
    ],
)
def test_the_format_is_javas(text: str, found: dict[str, str]) -> None:
    assert parse_properties(text) == found
