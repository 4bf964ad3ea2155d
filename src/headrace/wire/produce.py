"""Produce requests in and responses out, with records as views of the frame: nothing is copied between the socket and the log.

The layouts are declared in `messages/produce.py` for all versions.  The compiled codec reads a request of one partition in about
three microseconds, so there is no second, hand-written reader beside it.  Versions 0 to 2 carry the old message sets; they
are read like any other, and it is for the log to refuse what is in them.
"""

from headrace.wire.codec import decode, encode
from headrace.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from headrace.wire.pieces import pieces_of
from headrace.wire.schema import Buffer

__all__ = [
    "BatchIndexAndErrorMessage",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "PartitionProduceData",
    "PartitionProduceResponse",
    "ProduceRequest",
    "ProduceResponse",
    "TopicProduceData",
    "TopicProduceResponse",
    "read_produce_request",
    "read_produce_response",
    "write_produce_request",
    "write_produce_response",
]


def read_produce_request(frame: Buffer, position: int, version: int) -> ProduceRequest:
    """The body of a request that begins at the position; its records are views of the frame."""
    return decode(ProduceRequest, frame, version, position, exact=False)


def write_produce_response(response: ProduceResponse, version: int) -> bytes:
    """The body of a reply."""
    return encode(response, version)


def write_produce_request(request: ProduceRequest, version: int) -> list[Buffer]:
    """The body of a request in pieces; large records are among them as they are."""
    return pieces_of(request, version)


def read_produce_response(frame: Buffer, position: int, version: int) -> ProduceResponse:
    """The body of a reply that begins at the position."""
    return decode(ProduceResponse, frame, version, position)
