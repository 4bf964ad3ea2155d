"""Patterns for subscribing to topics by name, in the syntax of RE2, matched in time linear in the name."""

from headrace.coordination.group.pattern.matching import Pattern
from headrace.coordination.group.pattern.parsing import InvalidPattern

__all__ = ["InvalidPattern", "Pattern"]
