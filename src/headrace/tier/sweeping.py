"""Which objects nobody needs: left behind by uploads that were cut short, by deletions that were, and by deleted topics.

A leader sweeps its own partitions, after it has written their manifests once more: whatever was still on its way to replace the
one before is refused from then on.  So an object of its own or an older epoch that the manifest does not name now is not named
ever.  The grace period is not needed for that; it is for whoever made a mistake.
"""

from collections.abc import Iterable
from typing import NamedTuple

from headrace.tier.manifest import Manifest
from headrace.tier.naming import parse_object_name


class Listed(NamedTuple):
    """An object in the store; its time is by the store's clock."""

    key: str
    size: int
    modified_ms: int


def orphans(listed: Iterable[Listed], manifest: Manifest, leader_epoch: int, newest_ms: int, grace_ms: int) -> list[str]:
    """What may be deleted of a partition's folder.  `newest_ms` is when the manifest was written, by the store's clock: ages
    are told by that clock alone."""
    assert manifest.leader_epoch == leader_epoch, "only who has claimed a manifest knows what it will not name"
    named = manifest.objects
    found = []
    for each in listed:
        name = parse_object_name(each.key)
        if name is None or each.key in named or name.leader_epoch > leader_epoch:
            continue
        if newest_ms - each.modified_ms >= grace_ms:
            found.append(each.key)
    return found
