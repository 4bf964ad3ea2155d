"""Settings of one group (KIP-848, KIP-1240), which librdkafka does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.client.admin.wire_admin import WireAdmin, raise_for
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

GROUP_RESOURCE: Final = 32
SET, DELETE = 0, 1
# Where a setting comes from when it is the group's own.
OWN_SOURCE: Final = 8


def group_settings(wire: WireAdmin, group: str) -> dict[str, tuple[str, bool]]:
    """Each setting's value, and whether it is the group's own."""
    resource = DescribeConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configuration_keys=None)
    (found,) = wire.call(DescribeConfigsRequest(resources=(resource,))).results
    raise_for(found.error_code, f"the settings of group '{group}'", found.error_message)
    return {each.name: (each.value or "", each.config_source == OWN_SOURCE) for each in found.configs}


def change_group_settings(wire: WireAdmin, group: str, settings: Mapping[str, str | None]) -> None:
    """Set these; those that are None have the broker's value again."""
    configs = tuple(
        AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
        for name, value in settings.items()
    )
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=configs)
    (answer,) = wire.call(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)).responses
    raise_for(answer.error_code, f"the settings of group '{group}'", answer.error_message)
