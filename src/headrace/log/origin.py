"""Who appends to a log."""

from enum import Enum


class Origin(Enum):
    """Only clients are held to sequence numbers, and they may not write control batches."""

    CLIENT = "client"
    # What a broker made of a client's batch, or delivers as one: held to sequences as the client is, and it may have gaps.
    DELAYED = "delayed"
    # Parts of clients' batches that wait elsewhere: what was sent again is recognised, and sequences may be missing.
    WAITING = "waiting"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"
