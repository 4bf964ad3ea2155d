"""What is kept under a name: settings of groups, also of those without members yet, and subscriptions to clients' metrics."""

from collections.abc import Mapping

from headrace.controller.entries import (
    Compare,
    ConditionalWrite,
    Delete,
    Operation,
    Put,
    client_metrics_key,
    encode_configs,
    group_config_key,
)
from headrace.controller.image import ClusterImage


def alter_group_configs(image: ClusterImage, group_id: str, configs: Mapping[str, str]) -> ConditionalWrite:
    """Replace all settings of a group."""
    return _replace(image, group_config_key(group_id), configs)


def alter_client_metrics(image: ClusterImage, name: str, configs: Mapping[str, str]) -> ConditionalWrite:
    """Replace a subscription; without any settings it is gone."""
    return _replace(image, client_metrics_key(name), configs)


def _replace(image: ClusterImage, key: str, configs: Mapping[str, str]) -> ConditionalWrite:
    operation: Operation = Put(key, encode_configs(configs)) if configs else Delete(key)
    return ConditionalWrite((Compare(key, image.mod_revision(key)),), (operation,))
