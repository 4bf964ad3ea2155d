"""One record of a queue while it is ours: handed out, worked on, and then done, released or rejected, once."""

from __future__ import annotations

import traceback
from enum import Enum, auto
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import Message

from headrace.client.errors import Reject, WrongState
from headrace.client.logs import log
from headrace.client.queue.words import Said, Word
from headrace.client.records.record import KeyedRecord
from headrace.client.records.type_variables import K, V

if TYPE_CHECKING:
    from headrace.client.queue.link import BrokerLink


class Stage(Enum):
    """Where a job is here; which broker's record it is, the broker knows."""

    WAITING = auto()
    WORKING = auto()
    OVER = auto()


class Job(KeyedRecord[K, V]):
    """A record to work on: `value`, `key`, `headers` and all else of a Record, and `attempt`, which counts from 1.

    In `with job:` it is done where the block ends, released where the block raises (the broker delivers it again, after the
    group's backoff) and rejected where it raises Reject; none of these exceptions leaves the block.  Or say so yourself.
    """

    __slots__ = ("_deadline", "_link", "_stage", "_started", "attempt")
    attempt: int
    _link: BrokerLink
    _stage: Stage
    _deadline: float
    _started: float

    def done(self) -> None:
        """It is worked off: nobody gets it again."""
        self._say(Word.ACCEPT)

    def release(self) -> None:
        """Give it back: somebody gets it again, after the group's backoff, until its attempts are used up."""
        self._say(Word.RELEASE)

    def reject(self, reason: str = "") -> None:
        """Give it up: it goes to the dead letters, with the reason."""
        self._say(Word.REJECT, reason)

    @property
    def is_open(self) -> bool:
        """Whether nothing was said of it yet."""
        return self._stage is Stage.WORKING

    def _say(self, word: Word, reason: str = "") -> None:
        if not self._link.say(self, word, reason):
            raise WrongState(f"{name_of(self)} is over: it was done, released or rejected before")

    def end(self, error: BaseException | None) -> None:
        """Say what follows from how its work ended, if nothing was said yet."""
        if not self.is_open:
            return
        if error is None:
            self.done()
        elif isinstance(error, Reject):
            self.reject(str(error))
        else:
            self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        self.end(error)
        if error is not None and isinstance(error, Exception) and not isinstance(error, Reject):
            log.warning("%s failed in attempt %d and is released: %s", name_of(self), self.attempt, _described(error))
        return isinstance(error, Exception)

    def __repr__(self) -> str:
        return (
            f"Job({self.topic}[{self.partition}]@{self.offset}, attempt={self.attempt}, key={self.key!r}, value={self.value!r})"
        )


def name_of(job: Job[Any, Any]) -> str:
    """For logs and errors, which are no place for what is in a job."""
    return f"job {job.topic}[{job.partition}]@{job.offset}"


def _described(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


def job_of(message: Message, key: Any, value: Any, attempt: int, link: BrokerLink, deadline: float) -> Job[Any, Any]:
    job: Job[Any, Any] = Job()
    job._message = message
    job.decoded_key = key
    job.value = value
    job.attempt = attempt
    job._link = link
    job._deadline = deadline
    job._stage = Stage.WAITING
    return job


def said_of(job: Job[Any, Any], word: Word, reason: str = "") -> Said:
    return Said(job.partition, job.offset, word, reason)
