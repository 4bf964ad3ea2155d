"""The rules of the metadata, put in front of every request.

They are those that the broker knows: cut off from the store, it goes on with them.  A change makes another authorizer, which has
forgotten every decision; requests from then on are held to it.
"""

import logging
from collections.abc import Sequence

from headrace.controller.changes import AclChanged, Change
from headrace.controller.image import CurrentImage
from headrace.model.access.acls import AclRule
from headrace.model.access.principals import parse_super_users
from headrace.model.broker_settings import BrokerConfig
from headrace.model.security_settings import KAFKA_AUTHORIZERS
from headrace.security.authorization.authorizer import Authorizer
from headrace.security.authorization.guard import Guard
from headrace.security.authorization.index import AclIndex

logger = logging.getLogger(__name__)


class AccessRules:
    """Keeps the guard's authorizer as the metadata have it."""

    def __init__(self, config: BrokerConfig, image: CurrentImage) -> None:
        self.is_enabled = config["authorizer"] == "acl" or config["authorizer.class.name"] in KAFKA_AUTHORIZERS
        self._super_users = parse_super_users(config["super.users"])
        self._allow_everyone: bool = config["allow.everyone.if.no.acl.found"]
        if self.is_enabled and not self._super_users:
            logger.warning("super.users is empty: where no rule allows it yet, nobody may make rules, or anything else")
        self._image = image
        self.guard = Guard()
        self.renew()

    def renew(self) -> None:
        """Begin anew with all rules there are."""
        if self.is_enabled:
            self.guard.authorizer = Authorizer(
                AclIndex(self._image().acls.values()),
                self._super_users,
                allow_everyone_if_no_acl_found=self._allow_everyone,
            )

    def on_changes(self, changes: Sequence[Change]) -> None:
        """Take over what has changed; all of it at once, so that no decision sees a part."""
        authorizer = self.guard.authorizer
        if authorizer is None:
            return
        holds: dict[AclRule, bool] = {}
        for change in changes:
            if isinstance(change, AclChanged):
                holds |= {rule: holding for rule, holding in ((change.before, False), (change.after, True)) if rule is not None}
        if holds:
            self.guard.authorizer = authorizer.changed(
                added=[rule for rule, holding in holds.items() if holding],
                removed=[rule for rule, holding in holds.items() if not holding],
            )
