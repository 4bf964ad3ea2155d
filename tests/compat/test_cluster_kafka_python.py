"""kafka-python asks about the cluster: its quorum, its features, its directories, and the settings of groups and loggers."""

from collections.abc import Iterator

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import LogDirNotFoundError, NoError


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def test_the_leader_of_the_quorum_is_among_its_voters(admin: KafkaAdminClient) -> None:
    quorum = admin.describe_metadata_quorum()
    (partition,) = quorum["topics"][0]["partitions"]

    assert partition["leader_id"] in [voter["replica_id"] for voter in partition["current_voters"]]
    assert partition["high_watermark"] > 0


def test_features_are_described_and_updated_to_the_level_that_they_have(admin: KafkaAdminClient) -> None:
    feature = admin.describe_features()["group.version"]

    assert feature["finalized"] == (1, 1)
    assert feature["finalized_epoch"] > 0
    assert admin.update_features({"group.version": 1}) == {"group.version": "OK"}


def test_a_groups_setting_is_altered_described_listed_and_reset(admin: KafkaAdminClient, topic: str) -> None:
    name = "consumer.session.timeout.ms"
    admin.alter_configs([ConfigResource(ConfigResourceType.GROUP, topic, {name: "50000"})])
    described = admin.describe_configs([ConfigResource(ConfigResourceType.GROUP, topic)])
    listed = admin.list_config_resources([ConfigResourceType.GROUP])
    admin.reset_configs([ConfigResource(ConfigResourceType.GROUP, topic, {name: None})])
    later = admin.list_config_resources([ConfigResourceType.GROUP])

    assert described["group"][topic][name]["value"] == "50000"
    assert topic in listed["group"]
    assert topic not in later.get("group", ())


def test_the_root_loggers_level_is_described(admin: KafkaAdminClient) -> None:
    resource = ConfigResource(ConfigResourceType.BROKER_LOGGER, "1")

    described = admin.describe_configs([resource], config_filter="all")

    assert described["broker_logger"]["1"]["root"]["value"] in {"FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"}


def test_a_replica_stays_in_its_directory_and_finds_no_other(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
    directory = admin.describe_log_dirs()[0]["log_dirs"][0]["log_dir"]

    same = admin.alter_replica_log_dirs({(topic, 0, 1): directory})
    other = admin.alter_replica_log_dirs({(topic, 0, 1): "/nowhere"})

    assert list(same.values()) == [NoError]
    assert list(other.values()) == [LogDirNotFoundError]


def test_nobody_has_credentials(admin: KafkaAdminClient) -> None:
    assert admin.describe_user_scram_credentials() == {}
