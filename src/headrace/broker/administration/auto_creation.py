"""Topics that clients name before they exist: they are created beside the answer, which says that they do not exist yet.

As in Kafka, a client asks again a moment later and finds the topic.  Each name is under way once, and only so many at a time:
a name beyond that is left for the client's next attempt.
"""

import logging
from collections.abc import Awaitable, Callable

from headrace.broker.administration.topics import Topics
from headrace.broker.supervision.supervision import Spawn
from headrace.controller.image import Topic
from headrace.model.errors import RequestError
from headrace.security.audit.events import Origin
from headrace.security.authorization.guard import Asker

logger = logging.getLogger(__name__)

NAMES_MAX = 1000  # under way at a time
KIND = "creation of a topic that a client named"


# Makes a topic; None where somebody else was faster.
Make = Callable[[], Awaitable[Topic | None]]


async def _unrecorded(origin: Origin, make: Make) -> None:
    await make()


class AutoCreation:
    """The topics under way for clients that named them."""

    def __init__(self, topics: Topics, spawn: Spawn) -> None:
        self._topics = topics
        self._spawn = spawn
        self._under_way: set[str] = set()
        # What was last said of a name that could not be created: clients ask many times a second.
        self._last_reason: dict[str, str] = {}
        # How it is recorded who had a topic made.
        self.recorded: Callable[[Origin, Make], Awaitable[None]] = _unrecorded

    def is_under_way(self, name: str) -> bool:
        """Whether a topic is still being taken up here; who is told of it too soon writes in vain and rests for longer."""
        return name in self._under_way

    def begin(self, name: str, asker: Asker) -> None:
        """Have a topic created soon; nothing is said of how it goes but in the log."""
        if name in self._under_way or len(self._under_way) >= NAMES_MAX:
            return
        self._under_way.add(name)
        self._spawn(self._create(name, asker.origin), KIND)

    async def _create(self, name: str, origin: Origin) -> None:
        async def make() -> Topic | None:
            made: list[str] = []
            topic = await self._topics.ensure(name, lambda: made.append(name))
            return topic if made else None

        try:
            await self.recorded(origin, make)
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
