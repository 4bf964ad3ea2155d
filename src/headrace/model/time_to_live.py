"""The per-message time to live, as every reader of ours sees it: log cleaner, command line, SDK and Spark.

A record that carries the header expires that many milliseconds after its own timestamp.  A header that is not a whole number of
milliseconds, zero or more, is no time to live: such a record does not expire.
"""

from collections.abc import Iterable

TTL_HEADER = "headrace-ttl-ms"
TTL_DIGITS_MAX = 18  # more would not fit a timestamp


def expires_at(headers: Iterable[tuple[str, bytes | None]], timestamp_ms: int) -> int | None:
    """When a record stops being shown; None for one that stays.  Of several such headers the last one counts."""
    expiry = None
    for name, value in headers:
        if name == TTL_HEADER and value is not None and value.isdigit() and len(value) <= TTL_DIGITS_MAX:
            expiry = timestamp_ms + int(value)
    return expiry


def is_expired(headers: Iterable[tuple[str, bytes | None]], timestamp_ms: int, now_ms: int) -> bool:
    """Whether a reader must no longer show this record."""
    expiry = expires_at(headers, timestamp_ms)
    return expiry is not None and expiry < now_ms
