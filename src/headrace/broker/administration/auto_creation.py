"""Topics that clients name before they exist: they are created beside the answer, which says that they do not exist yet.

As in Kafka, a client asks again a moment later and finds the topic.  Each name is under way once, and only so many at a time:
a name beyond that is left for the client's next attempt.
"""

import logging

from headrace.broker.administration.topics import Topics
from headrace.broker.supervision.supervision import Spawn
from headrace.model.errors import RequestError

logger = logging.getLogger(__name__)

NAMES_MAX = 1000  # under way at a time
KIND = "creation of a topic that a client named"


class AutoCreation:
    """The topics under way for clients that named them."""

    def __init__(self, topics: Topics, spawn: Spawn) -> None:
        self._topics = topics
        self._spawn = spawn
        self._under_way: set[str] = set()
        # What was last said of a name that could not be created: clients ask many times a second.
        self._last_reason: dict[str, str] = {}

    def is_under_way(self, name: str) -> bool:
        """Whether a topic is still being taken up here; who is told of it too soon writes in vain and rests for longer."""
        return name in self._under_way

    def begin(self, name: str) -> None:
        """Have a topic created soon; nothing is said of how it goes but in the log."""
        if name in self._under_way or len(self._under_way) >= NAMES_MAX:
            return
        self._under_way.add(name)
        self._spawn(self._create(name), KIND)

    async def _create(self, name: str) -> None:
        try:
            await self._topics.ensure(name)
            self._last_reason.pop(name, None)
        except RequestError as error:
            self._log_once(name, error.message or error.code.name)
        finally:
            self._under_way.discard(name)

    def _log_once(self, name: str, why: str) -> None:
        if self._last_reason.get(name) == why:
            return
        if len(self._last_reason) >= NAMES_MAX:
            self._last_reason.clear()
        self._last_reason[name] = why
        logger.warning("topic '%s', which a client named, was not created: %s", name, why)
