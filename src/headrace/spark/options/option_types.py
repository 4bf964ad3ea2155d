"""The types of option values: numbers, switches, times, offsets.  A refusal names the option, the value and what would do."""

import difflib
import json
import re
from collections.abc import Mapping, Sequence

from headrace.model.identity import TopicPartition
from headrace.spark.errors import OptionError

DURATION = re.compile(r"^\s*(\d+)\s*(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|d|days?)\s*$", re.IGNORECASE)
DURATION_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def text(options: Mapping[str, str], name: str) -> str | None:
    """The value of an option, None when it is absent or blank."""
    value = options.get(name.lower())
    return value.strip() if value is not None and value.strip() else None


def integer(options: Mapping[str, str], name: str, default: int | None, *, at_least: int) -> int | None:
    value = text(options, name)
    if value is None:
        return default
    try:
        number = int(value)
    except ValueError:
        raise OptionError(f"option '{name}' is '{value}', but it takes a whole number of at least {at_least}") from None
    if number < at_least:
        raise OptionError(f"option '{name}' is {number}, but it must be at least {at_least}")
    return number


def switch(options: Mapping[str, str], name: str, default: bool) -> bool:
    value = text(options, name)
    if value is None:
        return default
    if value.lower() not in ("true", "false"):
        raise OptionError(f"option '{name}' is '{value}', but it takes true or false")
    return value.lower() == "true"


def choice(options: Mapping[str, str], name: str, default: str, allowed: Sequence[str]) -> str:
    value = text(options, name)
    if value is None:
        return default
    if value.lower() in allowed:
        return value.lower()
    close = difflib.get_close_matches(value.lower(), allowed, n=1)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    raise OptionError(f"option '{name}' is '{value}', but it takes one of {', '.join(allowed)}{hint}")


def duration_ms(options: Mapping[str, str], name: str, default: int) -> int:
    """`15m`, `90 seconds`, `500ms`."""
    value = text(options, name)
    if value is None:
        return default
    found = parse_duration_ms(value)
    if found is None:
        raise OptionError(f"option '{name}' is '{value}', but it takes a length of time such as 15m or 90 seconds")
    return found


def parse_duration_ms(value: str) -> int | None:
    """None where it is no length of time."""
    found = DURATION.match(value)
    if found is None:
        return None
    unit = found.group(2).lower()
    return int(found.group(1)) * DURATION_MS["ms" if unit.startswith(("ms", "milli")) else unit[0]]


def partition_numbers(name: str, value: str, *, smallest: int) -> dict[TopicPartition, int]:
    """`{"orders": {"0": 23, "1": -2}}`, the form of startingOffsets and of the by-timestamp options."""
    example = '{"orders": {"0": 23, "1": 42}}'
    parsed = _json(name, value, example)
    if not isinstance(parsed, dict) or not parsed:
        raise OptionError(f"option '{name}' is '{value}', but it takes JSON such as {example}")
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in parsed.items():
        if not isinstance(partitions, dict):
            raise OptionError(f"option '{name}' gives no partitions for topic '{topic}'; it takes JSON such as {example}")
        for partition, number in partitions.items():
            if not partition.isdigit() or type(number) is not int or number < smallest:
                raise OptionError(
                    f"option '{name}' has {partition}: {json.dumps(number)} for topic '{topic}'; it takes JSON such as {example}"
                )
            numbers[TopicPartition(topic, int(partition))] = number
    return numbers


def partition_lists(name: str, value: str) -> frozenset[TopicPartition]:
    """`{"orders": [0, 1]}`, the form of assign."""
    example = '{"orders": [0, 1], "payments": [2]}'
    parsed = _json(name, value, example)
    well_formed = (
        isinstance(parsed, dict)
        and parsed
        and all(isinstance(numbers, list) and numbers for numbers in parsed.values())
        and all(type(number) is int and number >= 0 for numbers in parsed.values() for number in numbers)
    )
    if not well_formed or not isinstance(parsed, dict):
        raise OptionError(f"option '{name}' is '{value}', but it takes JSON such as {example}")
    return frozenset(TopicPartition(topic, number) for topic, numbers in parsed.items() for number in numbers)


def _json(name: str, value: str, example: str) -> object:
    try:
        parsed: object = json.loads(value)
    except ValueError:
        raise OptionError(f"option '{name}' is '{value}', which is not JSON such as {example}") from None
    return parsed
