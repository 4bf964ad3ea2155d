"""Cron expressions in time zones, as times.

Debian's rules where clocks are set, as cronsim has them: a time that there is not is taken just after the gap, one that there is
twice is taken once, unless the expression says every hour or every minute.
"""

from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from headrace.coordination.schedule.entries import Definition


def why_not_a_time(cron: str, timezone: str) -> str | None:
    """What is wrong with an expression or a zone, in words; None when nothing is."""
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return f"{timezone!r} is not a time zone such as Europe/Vienna"
    try:
        CronSim(cron, datetime.now(zone))
    except CronSimError as error:
        return f"{cron!r} is not a cron expression such as '0 3 * * *': {error}"
    return None


def next_after(definition: Definition, after_ms: int) -> int | None:
    """When a schedule is due next after a time; None when it never is."""
    zone = ZoneInfo(definition.timezone)
    after = datetime.fromtimestamp(after_ms / 1000, UTC).astimezone(zone)
    try:
        due = next(CronSim(definition.cron, after))
    except StopIteration:
        return None
    return int(due.timestamp() * 1000)


def earlier(definition: Definition, until_ms: int, count: int) -> int | None:
    """A time from which on a schedule was due so many times, about, until another; None where it was not that often."""
    until = datetime.fromtimestamp(until_ms / 1000, UTC).astimezone(ZoneInfo(definition.timezone))
    found = list(islice(CronSim(definition.cron, until, reverse=True), count))
    return int(found[-1].timestamp() * 1000) if len(found) == count else None
