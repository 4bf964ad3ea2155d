"""Settings as DescribeConfigs shows them: every one, with where its value comes from and what else it could have come from."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import IntEnum
from typing import NamedTuple

from headrace.broker.telemetry.subscriptions import CLIENT_METRICS_SETTINGS
from headrace.controller.image import ClusterImage
from headrace.model.broker_settings import BROKER_SETTINGS, BrokerConfig, in_topic_units, setting_named
from headrace.model.group_settings import GROUP_SETTINGS
from headrace.model.security_settings import listener_of
from headrace.model.settings import Kind, Setting, SettingTable
from headrace.model.topic_settings import TOPIC_SETTINGS
from headrace.wire.messages.create_topics import CreatableTopicConfigs
from headrace.wire.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym

UNKNOWN_KIND = 0


class Source(IntEnum):
    """Where a value comes from.  The numbers are the protocol's."""

    TOPIC = 1
    BROKER_AT_RUN_TIME = 2
    ALL_BROKERS_AT_RUN_TIME = 3
    BROKER_AT_START = 4
    DEFAULT = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Origin(NamedTuple):
    """One place that gives a setting a value."""

    name: str
    value: str | None
    source: Source


class BrokerSources:
    """All places that give a broker's settings their values."""

    def __init__(self, config: BrokerConfig, image: ClusterImage, broker_id: int) -> None:
        self._own = image.broker_configs.get(broker_id, {})
        self._shared = image.default_broker_configs
        self._given = config.given

    @property
    def unknown(self) -> list[str]:
        """Names that were set at run time and that nothing here knows."""
        names = self._own.keys() | self._shared.keys()
        return sorted(name for name in names if name not in BROKER_SETTINGS and listener_of(name) is None)

    @property
    def of_listeners(self) -> list[str]:
        """Names of what is set for single listeners."""
        return sorted(name for name in self._own.keys() | self._given.keys() if listener_of(name) is not None)

    @property
    def shared(self) -> Mapping[str, str]:
        """What is set for all brokers at run time."""
        return self._shared

    def of(self, name: str) -> Iterator[Origin]:
        """The places that name this setting, the strongest first; its default last."""
        for texts, source in (
            (self._own, Source.BROKER_AT_RUN_TIME),
            (self._shared, Source.ALL_BROKERS_AT_RUN_TIME),
            (self._given, Source.BROKER_AT_START),
        ):
            if name in texts:
                yield Origin(name, texts[name], source)
        setting = BROKER_SETTINGS.by_name.get(name)
        if setting is not None and setting.default is not None:
            yield Origin(name, setting.format(setting.default), Source.DEFAULT)


def describe_topic(
    configs: Mapping[str, str], sources: BrokerSources, keys: tuple[str, ...] | None, *, synonyms: bool, documentation: bool
) -> tuple[DescribeConfigsResourceResult, ...]:
    """Every setting of a topic, or those asked for."""
    results = []
    for setting in TOPIC_SETTINGS:
        if (keys is None and (not setting.internal or setting.name in configs)) or (keys is not None and setting.name in keys):
            origins = list(_origins(setting, configs, Source.TOPIC, sources))
            value = in_topic_units(origins[0].name, origins[0].value)
            results.append(_result(setting, value, origins, read_only=False, synonyms=synonyms, documentation=documentation))
    return tuple(results)


def describe_group(
    configs: Mapping[str, str], sources: BrokerSources, keys: tuple[str, ...] | None, *, synonyms: bool, documentation: bool
) -> tuple[DescribeConfigsResourceResult, ...]:
    """Every setting that a group may have of its own, or those asked for."""
    return _of_table(GROUP_SETTINGS, Source.GROUP, configs, sources, keys, synonyms, documentation)


def describe_client_metrics(
    configs: Mapping[str, str], sources: BrokerSources, keys: tuple[str, ...] | None, *, synonyms: bool, documentation: bool
) -> tuple[DescribeConfigsResourceResult, ...]:
    """What a subscription to clients' metrics says, and what it leaves as it is."""
    return _of_table(CLIENT_METRICS_SETTINGS, Source.CLIENT_METRICS, configs, sources, keys, synonyms, documentation)


def _of_table(
    table: SettingTable,
    own: Source,
    configs: Mapping[str, str],
    sources: BrokerSources,
    keys: tuple[str, ...] | None,
    synonyms: bool,
    documentation: bool,
) -> tuple[DescribeConfigsResourceResult, ...]:
    results = []
    for setting in table:
        if keys is None or setting.name in keys:
            origins = list(_origins(setting, configs, own, sources))
            results.append(
                _result(setting, origins[0].value, origins, read_only=False, synonyms=synonyms, documentation=documentation)
            )
    return tuple(results)


def _origins(setting: Setting, configs: Mapping[str, str], own: Source, sources: BrokerSources) -> Iterator[Origin]:
    if setting.name in configs:
        yield Origin(setting.name, configs[setting.name], own)
    defaults = []
    for synonym in setting.synonyms:
        for origin in sources.of(synonym):
            if origin.source == Source.DEFAULT:
                defaults.append(origin)
            else:
                yield origin
    # A default in hours is the same default once more.
    yield defaults[0] if defaults else Origin(setting.name, setting.format(setting.default), Source.DEFAULT)


def describe_broker(
    sources: BrokerSources, keys: tuple[str, ...] | None, *, synonyms: bool, documentation: bool
) -> tuple[DescribeConfigsResourceResult, ...]:
    """Every setting of a broker, or those asked for."""
    results = []
    for setting in (*BROKER_SETTINGS, *map(setting_named, sources.of_listeners)):
        if (keys is None and not setting.internal) or (keys is not None and setting.name in keys):
            origins = list(sources.of(setting.name)) or [Origin(setting.name, None, Source.DEFAULT)]
            read_only = not setting.dynamic
            results.append(
                _result(setting, origins[0].value, origins, read_only=read_only, synonyms=synonyms, documentation=documentation)
            )
    unknown = (name for name in sources.unknown if keys is None or name in keys)
    return (*results, *(_unknown(name, list(sources.of(name)), synonyms=synonyms) for name in unknown))


def describe_all_brokers(
    sources: BrokerSources, keys: tuple[str, ...] | None, *, synonyms: bool, documentation: bool
) -> tuple[DescribeConfigsResourceResult, ...]:
    """What is set for all brokers at run time, and nothing else, as Kafka does."""
    results = []
    for name, text in sorted(sources.shared.items()):
        if keys is None or name in keys:
            origins = [Origin(name, text, Source.ALL_BROKERS_AT_RUN_TIME)]
            setting = BROKER_SETTINGS.by_name.get(name)
            results.append(
                _unknown(name, origins, synonyms=synonyms)
                if setting is None
                else _result(setting, text, origins, read_only=False, synonyms=synonyms, documentation=documentation)
            )
    return tuple(results)


def _unknown(name: str, origins: list[Origin], *, synonyms: bool) -> DescribeConfigsResourceResult:
    """What nobody knows could be a secret: it is named, and its value is not told."""
    secret = Setting(name=name, kind=Kind.PASSWORD, default=None, doc="")
    shown = _result(secret, None, origins, read_only=True, synonyms=synonyms, documentation=False)
    return replace(shown, config_type=UNKNOWN_KIND)


def _result(
    setting: Setting, value: str | None, origins: list[Origin], *, read_only: bool, synonyms: bool, documentation: bool
) -> DescribeConfigsResourceResult:
    secret = setting.kind == Kind.PASSWORD
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=None if secret else value,
        read_only=read_only,
        is_default=origins[0].source == Source.DEFAULT,
        config_source=origins[0].source,
        is_sensitive=secret,
        synonyms=tuple(
            DescribeConfigsSynonym(name=origin.name, value=None if secret else origin.value, source=origin.source)
            for origin in (origins if synonyms else ())
        ),
        config_type=setting.kind,
        documentation=setting.description if documentation else None,
    )


def topic_results(sources: BrokerSources, configs: Mapping[str, str]) -> tuple[CreatableTopicConfigs, ...]:
    """A new topic's settings, as CreateTopics reports them."""
    return tuple(
        CreatableTopicConfigs(
            name=result.name,
            value=result.value,
            read_only=result.read_only,
            config_source=result.config_source,
            is_sensitive=result.is_sensitive,
        )
        for result in describe_topic(configs, sources, None, synonyms=False, documentation=False)
    )
