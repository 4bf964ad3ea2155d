"""Which topics may have a part in an object store, and that they keep it."""

from collections.abc import Mapping

from headrace.model.broker_settings import BrokerConfig
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.settings import SettingError
from headrace.model.tier.lost_topic import LostTopic
from headrace.model.topic_settings import LogConfig

ENABLE = "remote.storage.enable"


def require_store(broker: BrokerConfig, topic: LogConfig) -> None:
    """Raises SettingError where a topic cannot be tiered on this broker."""
    if not topic.remote_storage_enable:
        return
    if broker["headrace.memory"]:
        raise SettingError(f"{ENABLE}=true needs a disk, and this broker keeps its logs in memory")
    if broker["headrace.remote.url"] is None:
        raise SettingError(f"{ENABLE}=true needs an object store; set headrace.remote.url on every broker")


def keep_tiered(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Raises RequestError where the part in the store would be cut off."""
    if before.get(ENABLE) == "true" and after.get(ENABLE) != "true":
        why = "its older records are in the object store alone"
        raise RequestError(ErrorCode.INVALID_CONFIG, f"{ENABLE} of a topic is not turned off again: {why}.")
    if before.get(LostTopic.SETTING, "") != after.get(LostTopic.SETTING, ""):
        raise RequestError(ErrorCode.INVALID_CONFIG, f"{LostTopic.SETTING} is set when a topic is made, and stays.")
