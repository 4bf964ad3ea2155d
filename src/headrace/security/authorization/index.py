"""Rules by what they are about, so that a decision looks at few of them however many there are.

An index is never changed: a change makes another one, which shares what is the same.  A name is looked up as it is, as `*`, and
by each length that some prefix of that type has.
"""

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import NamedTuple

from headrace.model.access.acls import ANY_RESOURCE, AclRule, Operation, PatternType, Permission, ResourceType, read_network
from headrace.model.access.principals import Principal


class Pattern(NamedTuple):
    """The resources that a rule is about."""

    resource_type: ResourceType
    pattern_type: PatternType
    name: str

    @property
    def is_about_all(self) -> bool:
        return self.pattern_type is PatternType.LITERAL and self.name == ANY_RESOURCE


class Entry(NamedTuple):
    """A rule, with what its text means."""

    rule: AclRule
    network: IPv4Network | IPv6Network | None
    operations: frozenset[Operation]

    def decides(self, operation: Operation, address: IPv4Address | IPv6Address | None) -> bool:
        if operation not in self.operations:
            return False
        return self.network is None or (address is not None and address in self.network)

    @property
    def denies(self) -> bool:
        return self.rule.permission is Permission.DENY


Entries = Mapping[Principal, tuple[Entry, ...]]


class AclIndex:
    """All rules of a cluster."""

    __slots__ = ("_by_pattern", "_by_principal", "_prefix_lengths")

    def __init__(self, rules: Iterable[AclRule] = ()) -> None:
        self._by_pattern: dict[Pattern, Entries] = {}
        self._by_principal: dict[Principal, frozenset[Pattern]] = {}
        self._prefix_lengths: dict[ResourceType, dict[int, int]] = {}  # -> how many patterns have this length
        for rule in rules:
            self._add(rule)

    def __len__(self) -> int:
        return sum(len(entries) for by_principal in self._by_pattern.values() for entries in by_principal.values())

    def __iter__(self) -> Iterator[AclRule]:
        for by_principal in self._by_pattern.values():
            for entries in by_principal.values():
                yield from (entry.rule for entry in entries)

    def changed(self, *, added: Iterable[AclRule] = (), removed: Iterable[AclRule] = ()) -> "AclIndex":
        """Another index, with these rules and without those.  What is there twice is there once."""
        other = AclIndex()
        other._by_pattern = dict(self._by_pattern)
        other._by_principal = dict(self._by_principal)
        other._prefix_lengths = {kind: dict(lengths) for kind, lengths in self._prefix_lengths.items()}
        for rule in removed:
            other._remove(rule)
        for rule in added:
            other._add(rule)
        return other

    def about(self, resource_type: ResourceType, name: str) -> list[Entries]:
        """The rules that are about a resource: those for its name, for its prefixes from the longest, for all."""
        by_pattern = self._by_pattern
        found = [by_pattern.get(Pattern(resource_type, PatternType.LITERAL, name))]
        lengths = self._prefix_lengths.get(resource_type, {})
        found += [
            by_pattern.get(Pattern(resource_type, PatternType.PREFIXED, name[:length]))
            for length in sorted(lengths, reverse=True)
            if length <= len(name)
        ]
        if name != ANY_RESOURCE:
            found.append(by_pattern.get(Pattern(resource_type, PatternType.LITERAL, ANY_RESOURCE)))
        return [entries for entries in found if entries]

    def of(self, principals: Iterable[Principal], resource_type: ResourceType) -> Iterator[tuple[Pattern, Entry]]:
        """The rules about one type of resource that are for one of these principals."""
        for principal in principals:
            for pattern in self._by_principal.get(principal, ()):
                if pattern.resource_type is resource_type:
                    yield from ((pattern, entry) for entry in self._by_pattern[pattern][principal])

    def has_rules_about_all(self, resource_type: ResourceType) -> bool:
        return Pattern(resource_type, PatternType.LITERAL, ANY_RESOURCE) in self._by_pattern

    def _add(self, rule: AclRule) -> None:
        pattern = pattern_of(rule)
        entries = dict(self._by_pattern.get(pattern, {}))
        own = entries.get(rule.principal, ())
        if any(entry.rule == rule for entry in own):
            return
        if not entries and pattern.pattern_type is PatternType.PREFIXED:
            lengths = self._prefix_lengths.setdefault(pattern.resource_type, {})
            lengths[len(pattern.name)] = lengths.get(len(pattern.name), 0) + 1
        entries[rule.principal] = (*own, Entry(rule, read_network(rule.host), rule.operations))
        self._by_pattern[pattern] = entries
        self._by_principal[rule.principal] = self._by_principal.get(rule.principal, frozenset()) | {pattern}

    def _remove(self, rule: AclRule) -> None:
        pattern = pattern_of(rule)
        entries = dict(self._by_pattern.get(pattern, {}))
        before = entries.pop(rule.principal, ())
        after = tuple(entry for entry in before if entry.rule != rule)
        if len(before) == len(after):
            return
        if after:
            entries[rule.principal] = after
        else:
            self._forget(rule.principal, pattern)
        if entries:
            self._by_pattern[pattern] = entries
            return
        del self._by_pattern[pattern]
        if pattern.pattern_type is PatternType.PREFIXED:
            lengths = self._prefix_lengths[pattern.resource_type]
            lengths[len(pattern.name)] -= 1
            if not lengths[len(pattern.name)]:
                del lengths[len(pattern.name)]

    def _forget(self, principal: Principal, pattern: Pattern) -> None:
        patterns = self._by_principal[principal] - {pattern}
        if patterns:
            self._by_principal[principal] = patterns
        else:
            del self._by_principal[principal]


def pattern_of(rule: AclRule) -> Pattern:
    return Pattern(rule.resource_type, rule.pattern_type, rule.resource_name)
