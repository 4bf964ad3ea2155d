"""The table of APIs and versions in `docs/wire.md`, made from the declarations and from what a broker serves."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import NamedTuple

from headrace.wire.apis import ApiKey, declared_keys, messages_of


class ApiRow(NamedTuple):
    """One API: the versions whose layout is known, and those that a broker serves (none, if it has no handler for it)."""

    key: ApiKey
    name: str
    known: range
    flexible_from: int | None
    served: range | None
    purpose: str


def api_rows(served: Mapping[ApiKey, range]) -> list[ApiRow]:
    """All declared APIs by key, each beside what `served` says of it."""
    unknown = served.keys() - declared_keys()
    if unknown:
        raise ValueError(f"served but not declared: {', '.join(sorted(key.name for key in unknown))}")
    return [_row(key, served.get(key)) for key in sorted(declared_keys())]


def _row(key: ApiKey, served: range | None) -> ApiRow:
    pair = messages_of(key)
    name = pair.request.__name__.removesuffix("Request")
    if served is not None and not set(served) <= set(pair.api.versions):
        raise ValueError(f"{name} is served as {versions_text(served)}, but known as {versions_text(pair.api.versions)}")
    summary = _module_summary(pair.request)
    return ApiRow(key, name, pair.api.versions, pair.api.flexible_from, served, summary)


def _module_summary(message: type) -> str:
    """The first sentence of the message module, without the name that opens it."""
    opening = (import_module(message.__module__).__doc__ or "").split("\n\n")[0]
    _, _, summary = " ".join(opening.split()).partition(": ")
    return summary.split(". ")[0].rstrip(".")


def versions_text(versions: range | None) -> str:
    """`0-13`, `2` or a dash."""
    if versions is None or not len(versions):
        return "–"
    return str(versions[0]) if len(versions) == 1 else f"{versions[0]}–{versions[-1]}"


def markdown_table(rows: Iterable[ApiRow]) -> str:
    """The rows as a Markdown table."""
    lines = ["| key | API | served | known | flexible from | what for |", "|---:|---|---|---|---|---|"]
    for row in rows:
        flexible = "–" if row.flexible_from is None else str(row.flexible_from)
        cells = (str(int(row.key)), row.name, versions_text(row.served), versions_text(row.known), flexible, row.purpose)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
