"""Who appends to a log."""

from enum import Enum


class Origin(Enum):
    """Only clients are held to sequence numbers, and they may not write control batches."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"
