"""Settings of single groups: kept for groups that have none of their members yet, too."""

from collections.abc import Mapping

from headrace.controller.entries import Compare, ConditionalWrite, Delete, Operation, Put, encode_configs, group_config_key
from headrace.controller.image import ClusterImage


def alter_group_configs(image: ClusterImage, group_id: str, configs: Mapping[str, str]) -> ConditionalWrite:
    """Replace all settings of a group."""
    key = group_config_key(group_id)
    operation: Operation = Put(key, encode_configs(configs)) if configs else Delete(key)
    return ConditionalWrite((Compare(key, image.mod_revision(key)),), (operation,))
