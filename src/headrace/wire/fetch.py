"""Fetch requests in and responses out, with records that are never copied: from the log's pages to the socket as they are.

The layouts are declared in `messages/fetch.py` for all versions.  A reply is a list of buffers: the small parts between two
runs of records are joined to one, large records stand alone.  A follower reads the same reply with its records as views of
the frame.
"""

from headrace.wire.codec import decode
from headrace.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
    SnapshotId,
)
from headrace.wire.pieces import pieces_of
from headrace.wire.schema import Buffer

__all__ = [
    "AbortedTransaction",
    "EpochEndOffset",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "FetchableTopicResponse",
    "ForgottenTopic",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "PartitionData",
    "ReplicaState",
    "SnapshotId",
    "read_fetch_request",
    "read_fetch_response",
    "write_fetch_request",
    "write_fetch_response",
]


def read_fetch_request(frame: Buffer, position: int, version: int) -> FetchRequest:
    """The body of a request that begins at the position."""
    return decode(FetchRequest, frame, version, position, exact=False)


def write_fetch_response(response: FetchResponse, version: int) -> list[Buffer]:
    """The body of a reply in pieces; large records are among them as they are."""
    return pieces_of(response, version)


def write_fetch_request(request: FetchRequest, version: int) -> bytes:
    """The body of a request, as a follower sends it."""
    return b"".join(pieces_of(request, version))


def read_fetch_response(frame: Buffer, position: int, version: int) -> FetchResponse:
    """The body of a reply that begins at the position; its records are views of the frame."""
    return decode(FetchResponse, frame, version, position)
