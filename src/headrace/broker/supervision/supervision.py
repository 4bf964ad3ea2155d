"""All tasks of a broker, as one tree: each has a parent, a name, and a rule for its death.

A scope holds tasks and further scopes, and is closed as a whole: everything in it is cancelled and waited for.  Long-lived work
is started as a function, so that it can be begun again; work that is done once is spawned.  Nothing dies in silence: each death
by surprise is logged with its name and its cause, counts for a minute among the broker's troubles (`/ready` and `cluster status`
show them), and is followed by what the rule says.  No other module of the broker makes tasks; `tests/architecture` checks that.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import field
from enum import Enum
from typing import Any, Protocol

from headrace.declaring import dataclass
from headrace.host.clock import Clock

logger = logging.getLogger(__name__)

PAUSE_S, PAUSE_S_MAX = 0.1, 10.0
DOUBLINGS_MAX = 20  # more than it takes from the one to the other
WINDOW_S = 60.0  # deaths older than this are forgiven
DEATHS_MAX = 5  # within the window: more of a task that the broker cannot do without end the broker

Function = Callable[[], Coroutine[Any, Any, None]]


class Spawn(Protocol):
    """Runs something once, beside everything else; `kind` is its name for people, where its own is not for them."""

    def __call__(self, coroutine: Coroutine[Any, Any, None], kind: str = "") -> None: ...


class Rule(Enum):
    """What follows when a task dies by surprise."""

    RESTART = "it restarts after a pause, for as long as it takes"
    RESTART_OR_END = "it restarts after a pause; when it dies too often, the broker ends"
    END = "the broker ends"
    LOG = "it is logged"
    OWNER = "whoever began it hears of it and acts"


@dataclass(frozen=True, slots=True)
class Again:
    """Begin it again after a pause."""

    pause_s: float


@dataclass(frozen=True, slots=True)
class End:
    """End the broker."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """Leave it at that."""


Verdict = Again | End | Nothing


@dataclass(slots=True)
class Deaths:
    """When something died lately, and of what."""

    moments: deque[float] = field(default_factory=lambda: deque(maxlen=DEATHS_MAX + 1))
    # Without a window's time between any two.  Pauses grow with these: those within a window are few where pauses are long.
    in_a_row: int = 0
    cause: str = ""

    def note(self, error: BaseException, now: float) -> None:
        self.forgive(now)
        self.in_a_row = self.in_a_row + 1 if self.moments else 1
        self.moments.append(now)
        self.cause = in_words(error)

    def forgive(self, now: float) -> None:
        while self.moments and now - self.moments[0] > WINDOW_S:
            self.moments.popleft()


def verdict(rule: Rule, deaths: int, in_a_row: int) -> Verdict:
    """What follows after so many deaths of one task within the window, and in a row, the present one among both."""
    match rule:
        case Rule.END:
            return End()
        case Rule.LOG | Rule.OWNER:
            return Nothing()
        case Rule.RESTART_OR_END if deaths > DEATHS_MAX:
            return End()
        case Rule.RESTART | Rule.RESTART_OR_END:
            return Again(min(PAUSE_S * 2 ** min(in_a_row - 1, DOUBLINGS_MAX), PAUSE_S_MAX))


class BrokerFailed(Exception):
    """A task that the broker cannot do without died, and the broker ended for it."""


class Ended(Exception):
    """A task that should go on for ever returned, or was cancelled by somebody who does not own it."""


class Service:
    """One task that restarts as its rule says."""

    def __init__(self, scope: "Scope", kind: str, subject: str, function: Function, rule: Rule, *, may_return: bool) -> None:
        self.kind = kind
        self.name = f"{kind} {subject}" if subject else kind
        self.rule = rule
        self.deaths = Deaths()
        self.lives = 0
        self.is_running = False
        self._scope = scope
        self._function = function
        self._may_return = may_return
        self._injected: BaseException | None = None
        self._is_told_to_end = False
        self.task = asyncio.get_running_loop().create_task(self._live(), name=self.name)

    @property
    def is_over(self) -> bool:
        return self.task.done()

    def cancel(self) -> None:
        """End it on purpose.  Any other cancellation of its task is a death."""
        self._is_told_to_end = True
        self.task.cancel()

    async def close(self) -> None:
        """End it on purpose, and return when it has ended."""
        self.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def kill(self, error: Exception) -> None:
        """Have it die of `error` where it waits now.  For tests: every kind of task is killed once there."""
        assert self.is_running, f"{self.name} does not run"
        self._injected = error
        self.task.cancel()

    async def _live(self) -> None:
        while (error := await self._one_life()) is not None:
            following = self._scope.supervisor.on_death(self.name, self.rule, self.deaths, error)
            if not isinstance(following, Again):
                return
            await self._pause(following.pause_s)

    async def _pause(self, pause_s: float) -> None:
        try:
            await asyncio.sleep(pause_s)
        except asyncio.CancelledError:
            if self._ends_on_purpose():
                raise
            # Somebody else's cancellation: it is dead already, and begun again a little sooner.

    def _ends_on_purpose(self) -> bool:
        """Whether a cancellation is its owner's; any other is forgotten."""
        if self._is_told_to_end or self._scope.is_closed or _all_are_cancelled():
            return True
        while self.task.cancelling():
            self.task.uncancel()
        return False

    async def _one_life(self) -> BaseException | None:
        """What it died of; None when it did what it was there for."""
        self.lives += 1
        self.is_running = True
        try:
            await self._function()
        except asyncio.CancelledError:
            if self._ends_on_purpose():
                raise
            error, self._injected = self._injected, None
            # It came out of something that was awaited, or from somebody who has no say in it.
            return error or Ended("it was cancelled by something that does not own it")
        except Exception as error:
            return error
        finally:
            self.is_running = False
        return None if self._may_return else Ended("it returned")


class Scope:
    """Tasks that are closed together."""

    def __init__(self, name: str, supervisor: "Supervisor") -> None:
        self.name = name
        self.supervisor = supervisor
        self.is_closed = False
        # In the order in which they began, which sets do not keep.
        self._scopes: dict[Scope, None] = {}
        self._services: dict[Service, None] = {}
        self._one_offs: dict[asyncio.Task[Any], tuple[str, Rule]] = {}

    def scope(self, name: str) -> "Scope":
        """A scope inside of this one; it is closed before the tasks of this one are."""
        inner = Scope(name, self.supervisor)
        inner.is_closed = self.is_closed
        self._scopes[inner] = None
        return inner

    def start(self, kind: str, function: Function, rule: Rule, *, subject: str = "") -> Service:
        """Run something that goes on until the scope is closed."""
        return self._begin(Service(self, kind, subject, function, rule, may_return=False))

    def run(self, kind: str, function: Function, rule: Rule, *, subject: str = "") -> Service:
        """Run something that comes to an end, and restarts if it dies before."""
        return self._begin(Service(self, kind, subject, function, rule, may_return=True))

    def spawn(self, kind: str, coroutine: Coroutine[Any, Any, None], rule: Rule = Rule.LOG) -> asyncio.Task[None]:
        """Run something once; it ends with the scope at the latest."""
        task = asyncio.get_running_loop().create_task(coroutine, name=kind)
        if self.is_closed:
            task.cancel()
        self._one_offs[task] = kind, rule
        task.add_done_callback(self._one_off_ended)
        return task

    def _begin(self, service: Service) -> Service:
        if self.is_closed:
            service.cancel()
        self._services[service] = None
        service.task.add_done_callback(lambda _: self._services.pop(service, None))
        return service

    def _one_off_ended(self, task: asyncio.Task[Any]) -> None:
        kind, rule = self._one_offs.pop(task)
        if rule is Rule.OWNER:
            return
        if task.cancelled():
            if not self.is_closed:
                self.supervisor.on_one_off_death(kind, rule, Ended("it was cancelled"))
        elif isinstance(error := task.exception(), Exception):
            self.supervisor.on_one_off_death(kind, rule, error)

    def services(self) -> Iterator[Service]:
        """Everything long-lived in this scope and those inside."""
        yield from [service for service in self._services if not service.is_over]
        for scope in list(self._scopes):
            yield from scope.services()

    def tree(self, depth: int = 0) -> Iterator[str]:
        """A line for each scope and each task, for people."""
        yield f"{'  ' * depth}{self.name}"
        for service in self._services:
            yield f"{'  ' * (depth + 1)}{service.name}: {service.rule.value}"
        for scope in self._scopes:
            yield from scope.tree(depth + 1)

    async def close(self) -> None:
        """Cancel everything in here, the scopes inside first, and wait until it has ended."""
        self.shut()
        for scope in reversed(list(self._scopes)):
            await scope.close()
        tasks = [*(service.task for service in self._services), *self._one_offs]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def shut(self) -> None:
        """Let nothing begin in here any more, and call no end in here a surprise."""
        self.is_closed = True
        for scope in self._scopes:
            scope.shut()


class Supervisor(Scope):
    """The root of the tree."""

    def __init__(self, clock: Clock, *, on_end: Callable[[], None] = lambda: None) -> None:
        """`on_end` is called once, when a rule ends the broker; `failure` then says why."""
        super().__init__("broker", self)
        self._clock = clock
        self._on_end = on_end
        self._one_off_deaths: dict[str, Deaths] = {}
        self.failure: BrokerFailed | None = None
        # Hears of each death by surprise.
        self.on_death_noted: Callable[[str, BaseException], None] = lambda name, error: None

    def on_death(self, name: str, rule: Rule, deaths: Deaths, error: BaseException) -> Verdict:
        """Take note of a death, and decide what follows."""
        deaths.note(error, self._clock.monotonic())
        following = verdict(rule, len(deaths.moments), deaths.in_a_row)
        match following:
            case Again(pause_s):
                logger.error("%s failed and restarts in %.1f s", name, pause_s, exc_info=error)
            case Nothing():
                logger.error("%s failed", name, exc_info=error)
            case End():
                self._end(name, error)
        self.on_death_noted(name, error)
        return following

    def on_one_off_death(self, kind: str, rule: Rule, error: BaseException) -> None:
        self.on_death(kind, rule, self._one_off_deaths.setdefault(kind, Deaths()), error)

    def report(self, kind: str, error: BaseException) -> None:
        """Take note of something that failed without being a task: a callback that the event loop ran."""
        self.on_one_off_death(kind, Rule.LOG, error)

    def _end(self, name: str, error: BaseException) -> None:
        if self.failure is not None:
            logger.error("%s failed while the broker ends", name, exc_info=error)
            return
        self.failure = BrokerFailed(f"{name} failed: {in_words(error)}")
        self.failure.__cause__ = error
        logger.critical("the broker ends, because %s", self.failure, exc_info=error)
        self._on_end()

    def troubles(self) -> tuple[str, ...]:
        """What died within the last minute, or is down, in words for people; what stands before the colon stays the same."""
        now = self._clock.monotonic()
        found = []
        for service in self.services():
            service.deaths.forgive(now)
            if service.deaths.moments:
                found.append(f"{service.name} failed: {service.deaths.cause}")
        for kind, deaths in list(self._one_off_deaths.items()):
            deaths.forgive(now)
            if deaths.moments:
                found.append(f"{kind} failed: {deaths.cause}")
            else:
                del self._one_off_deaths[kind]
        return tuple(found)


def _all_are_cancelled() -> bool:
    """Whether the event loop itself is being closed, which cancels whatever is left in it."""
    return all(task.cancelling() for task in asyncio.all_tasks())


def aside(coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """A task outside of every tree, for whoever ends the tree.  Its owner waits for it."""
    return asyncio.get_running_loop().create_task(coroutine, name=name)


def in_words(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
