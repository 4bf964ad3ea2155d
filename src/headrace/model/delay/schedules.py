"""Schedules as their records in `__headrace_schedules` have them: JSON, for every client to write and to read.

A record's key is the schedule's name, its value what it is; no value removes it.  How far it has got is under the name and
`/state`.  To run one now is a value with a name for that run: `{"run": "…"}`.
"""

import json
import re
from typing import Any, Final

STATE_SUFFIX: Final = "/state"
MISSED: Final = ("skip", "once", "all")
HEADER_NAME: Final = "headrace-schedule"
HEADER_DUE: Final = "headrace-scheduled-at"
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,200}")
_TEXTS = {"cron": True, "timezone": False, "topic": True, "key": False, "value": False, "missed": False}


def why_not_a_schedule_name(name: str) -> str | None:
    return None if _NAME.fullmatch(name) else f"{name!r} is no name of a schedule: 1 to 200 letters, digits, '.', '_' and '-'"


def read_schedule(value: bytes) -> dict[str, Any]:
    """What a record says of a schedule; ValueError, in words, where that is not one."""
    try:
        given = json.loads(value)
    except (ValueError, RecursionError):  # the latter for what is nested without end
        raise ValueError("it is not JSON") from None
    if not isinstance(given, dict):
        raise ValueError("it is not a JSON object")
    unknown = sorted(given.keys() - {*_TEXTS, "headers", "paused", "run"})
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not a part of a schedule")
    if "run" in given:
        if not isinstance(given["run"], str) or not given["run"]:
            raise ValueError("'run' is not a name")
        return _whole({"run": given["run"]})
    for name, is_needed in _TEXTS.items():
        if (is_needed or given.get(name) is not None) and not isinstance(given.get(name), str):
            raise ValueError(f"{name!r} is not a text")
    if given.get("missed", "once") not in MISSED:
        raise ValueError(f"'missed' is not one of {', '.join(MISSED)}")
    if not isinstance(given.get("paused", False), bool):
        raise ValueError("'paused' is neither true nor false")
    headers = given.get("headers") or {}
    if not isinstance(headers, dict) or not all(isinstance(each, str) for each in headers.values()):
        raise ValueError("'headers' are not names with texts")
    return _whole(given)


def _whole(given: dict[str, Any]) -> dict[str, Any]:
    try:
        json.dumps(given, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("it has half of a character, which no record can hold") from None
    return given
