"""Share sessions: which partitions a member fetches from this broker, so that it need not name them each time (KIP-932)."""

from collections.abc import Iterable
from dataclasses import field
from uuid import UUID

from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode, RequestError

OPEN, FINAL = 0, -1
EPOCH_MAX = 2**31 - 1
# More than any member works on with one broker; a request has room for millions.
PARTITIONS_MAX = 10_000

PartitionId = tuple[UUID, int]
SessionKey = tuple[str, str]  # the group and the member


@dataclass(slots=True)
class ShareSession:
    """The partitions are in the order in which they are looked at next."""

    key: SessionKey
    epoch: int = 1  # of the request that is expected next
    partitions: dict[PartitionId, None] = field(default_factory=dict)

    def add(self, partitions: Iterable[PartitionId]) -> None:
        added = {each: None for each in partitions if each not in self.partitions}
        if len(self.partitions) + len(added) > PARTITIONS_MAX:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"A share session has {PARTITIONS_MAX} partitions at most.")
        self.partitions.update(added)

    def turn(self) -> list[PartitionId]:
        """All partitions; next time the second one is the first, so that none waits behind a busy one for ever."""
        turn = list(self.partitions)
        if turn:
            first = turn[0]
            del self.partitions[first]
            self.partitions[first] = None
        return turn


class ShareSessions:
    """By group and member."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._sessions: dict[SessionKey, ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, key: SessionKey, partitions: Iterable[PartitionId]) -> ShareSession:
        """A session begins, in place of one that the member may have had."""
        session = ShareSession(key)
        session.add(partitions)
        self._sessions.pop(key, None)
        if len(self._sessions) >= self._count_max:
            raise RequestError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        self._sessions[key] = session
        return session

    def go_on(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session, if this is the request that it expects."""
        session = self.find(key)
        if epoch != session.epoch:
            raise RequestError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        return session

    def find(self, key: SessionKey) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise RequestError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def is_open(self, session: ShareSession) -> bool:
        return self._sessions.get(session.key) is session

    def is_at_work(self, group_id: str) -> bool:
        """Whether any member of a group has a session."""
        return any(key[0] == group_id for key in self._sessions)

    def close(self, key: SessionKey) -> ShareSession:
        session = self.find(key)
        del self._sessions[key]
        return session
