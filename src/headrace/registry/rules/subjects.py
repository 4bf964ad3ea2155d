"""Names of subjects, and the contexts they are in.

A subject `:.billing:orders-value` is `orders-value` in the context `.billing`; one without such a prefix is in the default
context, `.`.  Ids and the meaning of references end at a context's border.
"""

from __future__ import annotations

from typing import NamedTuple

DEFAULT_CONTEXT = "."
GLOBAL_CONTEXT = ".__GLOBAL"
GLOBAL_PREFIX = f":{GLOBAL_CONTEXT}:"
EVERY_CONTEXT = ":*:"
RESERVED = ("__GLOBAL", "__EMPTY")


class Subject(NamedTuple):
    """One name, taken apart."""

    context: str
    name: str

    @property
    def qualified(self) -> str:
        return prefix_of(self.context) + self.name


def parsed(qualified: str) -> Subject:
    """`:.ctx:name`, or `name` in the default context; `:.ctx:` and `:.ctx` are the context itself."""
    if not qualified.startswith(":."):
        return Subject(DEFAULT_CONTEXT, qualified)
    context, _, name = qualified[1:].partition(":")
    return Subject(context, name)


def normal(qualified: str) -> str:
    """The one spelling under which a subject is kept: the default context is not named."""
    return parsed(qualified).qualified


def context_of(qualified: str) -> str:
    return parsed(qualified).context


def prefix_of(context: str) -> str:
    return "" if context == DEFAULT_CONTEXT else f":{context}:"


def beside(parent: str, referenced: str) -> str:
    """A reference without a context means the context of the schema that makes it."""
    if context_of(referenced) != DEFAULT_CONTEXT:
        return normal(referenced)
    return Subject(context_of(parent), parsed(referenced).name).qualified


def valid(qualified: str, *, for_settings: bool = False) -> bool:
    """Whether schemas may be registered under it; contexts as such have only settings and modes."""
    if any(ord(each) < 0x20 or 0x7F <= ord(each) <= 0x9F for each in qualified):
        return False
    subject = parsed(qualified)
    if subject.name in RESERVED:
        return False
    return for_settings or (bool(subject.name) and subject.context != GLOBAL_CONTEXT)
