"""The settings that topics work with: their own over the broker's."""

from headrace.controller.image import CurrentImage
from headrace.model.live_config import LiveConfig
from headrace.model.topic_settings import LogConfig


class TopicConfigs:
    """As they are now; of a topic that does not exist, what it would work with if it set nothing."""

    def __init__(self, image: CurrentImage, config: LiveConfig) -> None:
        self._image = image
        self._config = config

    def of(self, name: str) -> LogConfig:
        topic = self._image().topics.get(name)
        defaults = self._config.now.topic_defaults()
        return defaults.overridden(topic.configs) if topic is not None else defaults
