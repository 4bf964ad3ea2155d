"""What a task has to know to read one range of offsets, and how reading it can end early."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.spark.source.plan import OffsetRange


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeRead:
    """One range with everything that decides its rows."""

    range: OffsetRange
    schema: pa.Schema
    client: Mapping[str, Any]
    leader: str | None  # host:port at planning time
    now_ms: int  # records whose time to live ended before this are not shown
    fail_on_data_loss: bool
    timeout_ms: int  # how long to wait for the next record of the range
    group_id_prefix: str
    fetch_with: str

    @property
    def with_headers(self) -> bool:
        return "headers" in self.schema.names

    @property
    def read_committed(self) -> bool:
        return bool(self.client.get("isolation.level") == "read_committed")


class DirectFetchFailed(Exception):
    """Fetching directly did not work; everything before `position` has been given."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position
        self.reason = reason


class OutOfRange(Exception):
    """The log does not have the position (any more)."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position
