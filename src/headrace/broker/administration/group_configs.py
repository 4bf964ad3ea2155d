"""Settings of single groups, changed on behalf of clients: checked here, kept with the cluster's metadata."""

from collections.abc import Callable, Mapping

from headrace.controller.named_configs import alter_group_configs
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.group_settings import check_group_settings
from headrace.model.live_config import LiveConfig
from headrace.model.settings import SettingError

Texts = Mapping[str, str]


async def alter_group(
    cluster: ClusterMetadata, config: LiveConfig, group_id: str, change: Callable[[Texts], Texts], *, validate_only: bool
) -> None:
    """Change a group's settings, all or nothing.  The group need not exist: it finds them when it does."""
    if not group_id:
        raise RequestError(ErrorCode.INVALID_REQUEST, "There are no default settings of all groups; name a group.")

    def checked(before: Texts) -> Texts:
        after = change(before)
        try:
            check_group_settings(after, config.now)
        except SettingError as error:
            raise RequestError(ErrorCode.INVALID_CONFIG, f"{error}.") from None
        return after

    checked(cluster.image.group_configs.get(group_id, {}))
    if not validate_only:
        await cluster.submit(lambda image: [alter_group_configs(image, group_id, checked(image.group_configs.get(group_id, {})))])
