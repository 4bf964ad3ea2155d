"""Which partition a schedule's record goes to: by its key as Java's clients choose, else one after the other."""

from headrace.controller.image import CurrentImage
from headrace.coordination.delay.entries import Target
from headrace.coordination.schedule.entries import Definition
from headrace.records.key_partition import partition_of_key


class Places:
    """Partitions of the topics that there are."""

    def __init__(self, image: CurrentImage) -> None:
        self._image = image

    def of(self, definition: Definition, number: int) -> Target | None:
        """None where there is no such topic."""
        topic = self._image().topics.get(definition.topic)
        if topic is None:
            return None
        count = topic.partition_count
        return Target(topic.topic_id, number % count if definition.key is None else partition_of_key(definition.key, count))
