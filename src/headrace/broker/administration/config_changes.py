"""Changes of settings, whatever they belong to, and the checks that reading and writing them share."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import IntEnum

from headrace.broker.administration.client_metrics import alter_subscription
from headrace.broker.administration.group_configs import alter_group
from headrace.broker.administration.topics import Topics
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.partitions.replica_changes import Settled
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.access import acls
from headrace.model.access.acls import Operation
from headrace.model.broker_settings import BROKER_SETTINGS, BrokerConfig, setting_named
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.kafka_settings import why_refused
from headrace.model.live_config import LiveConfig
from headrace.model.security_settings import listener_of
from headrace.model.settings import SettingError

logger = logging.getLogger(__name__)

Change = Callable[[Mapping[str, str]], Mapping[str, str]]


class ConfigResourceType(IntEnum):
    """The protocol's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def require_broker(broker_id: int, name: str) -> int | None:
    """The broker a resource names: this one, whose id is given, or (empty) all of them.  Others are asked themselves."""
    if name == "":
        return None
    if name != str(broker_id):
        raise RequestError(ErrorCode.INVALID_REQUEST, f"This is broker {broker_id}; ask broker {name} about its own settings.")
    return broker_id


def require_this_broker(broker_id: int, name: str) -> None:
    """Loggers belong to one broker: there are none of all brokers."""
    if require_broker(broker_id, name) is None:
        raise RequestError(ErrorCode.INVALID_REQUEST, "A broker has to be named: loggers are its own.")


def require_right(context: RequestContext, operation: Operation, resource_type: int, name: str) -> None:
    """Raise where the asker may not read or write the settings of a resource.  What has none is refused later."""
    match resource_type:
        case ConfigResourceType.TOPIC:
            context.require(operation, acls.ResourceType.TOPIC, name)
        case ConfigResourceType.GROUP:
            context.require(operation, acls.ResourceType.GROUP, name)
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER | ConfigResourceType.CLIENT_METRICS:
            context.require(operation, acls.ResourceType.CLUSTER)


class ConfigChanges:
    """Changes the settings of topics, groups and brokers, and subscriptions to clients' metrics."""

    def __init__(
        self,
        cluster: ClusterMetadata,
        topics: Topics,
        settled: Settled,
        config: LiveConfig,
        broker_id: int,
        check_tls: Callable[[str, BrokerConfig], Awaitable[None]],
    ) -> None:
        """`check_tls` raises SettingError where a listener could not work with settings."""
        self._check_tls = check_tls
        self._cluster = cluster
        self._topics = topics
        self._settled = settled
        self._config = config
        self._broker_id = broker_id

    async def alter(self, resource_type: int, name: str, change: Change, *, validate_only: bool) -> None:
        """Change the settings of one resource, all or nothing."""
        match resource_type:
            case ConfigResourceType.TOPIC:
                await self._topics.alter(name, change, validate_only=validate_only)
            case ConfigResourceType.BROKER:
                await self._alter_broker(require_broker(self._broker_id, name), change, validate_only=validate_only)
            case ConfigResourceType.GROUP:
                await alter_group(self._cluster, self._config, name, change, validate_only=validate_only)
            case ConfigResourceType.CLIENT_METRICS:
                await alter_subscription(self._cluster, name, change, validate_only=validate_only)
            case _:
                raise RequestError(ErrorCode.INVALID_REQUEST, f"Settings of resource type {resource_type} cannot be changed.")

    async def _alter_broker(self, broker_id: int | None, change: Change, *, validate_only: bool) -> None:
        image = self._cluster.image
        before = image.default_broker_configs if broker_id is None else image.broker_configs.get(broker_id, {})

        def checked(texts: Mapping[str, str]) -> Mapping[str, str]:
            after = change(texts)
            for name, text in after.items():
                if texts.get(name) == text:
                    continue
                if listener_of(name) is not None and broker_id is not None:
                    _check_of_listener(name, text)
                    continue
                if name not in BROKER_SETTINGS:
                    if (why := why_refused(name, of_all_brokers=broker_id is None)) is not None:
                        raise RequestError(ErrorCode.INVALID_REQUEST, f"{why}.")
                    continue
                try:
                    setting = BROKER_SETTINGS[name]
                    setting.parse(text)
                except SettingError as error:
                    # Kafka's word for settings of brokers; of topics it is INVALID_CONFIG.
                    raise RequestError(ErrorCode.INVALID_REQUEST, f"{error}.") from None
                if not setting.dynamic:
                    raise RequestError(ErrorCode.INVALID_REQUEST, f"{name} is read when the broker starts; set it there.")
            return after

        after = checked(before)
        if broker_id is not None:
            await self._try_listeners({listener_of(name) for name in after if before.get(name) != after[name]}, after)
        if not validate_only:
            await self._cluster.alter_broker_configs(broker_id, checked)
            _say_what_has_no_effect(change(before).keys() - before.keys())
            await self._settled()

    async def _try_listeners(self, listeners: set[str | None], after: Mapping[str, str]) -> None:
        """Whether each could work with settings of its own is found out before anybody relies on them."""
        settings = self._config.now.with_altered({**self._config.now.altered, **after})
        try:
            for listener in sorted(filter(None, listeners)):
                await self._check_tls(listener, settings)
        except SettingError as error:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"{error}.") from None


def _check_of_listener(name: str, text: str) -> None:
    """A listener's own setting."""
    try:
        setting = setting_named(name)
        setting.parse(text)
    except SettingError as error:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"{error}.") from None
    if not setting.dynamic:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"{name} is read when the broker starts; set it there.")


def _say_what_has_no_effect(names: Iterable[str]) -> None:
    for name in sorted(names):
        if listener_of(name) is None and (name not in BROKER_SETTINGS or BROKER_SETTINGS[name].compatibility):
            logger.warning("the broker setting %s is stored and has no effect", name)
