"""Who may sign in with a password.

Changes go through librdkafka, which salts and hashes passwords before it sends them.  Lists do not: librdkafka ends the process
when a broker refuses to show its users (FINDINGS.md).
"""

from typing import Any, Final

from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from headrace.client.admin.wire_admin import WireAdmin, raise_for
from headrace.client.librdkafka import attempt, new_admin
from headrace.model.access.scram import ScramMechanism as ListedMechanism
from headrace.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest

ITERATIONS: Final = 4096
SECONDS_MAX: Final = 15.0
MECHANISMS: Final = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)


class Users:
    """The users of a cluster."""

    def __init__(self, properties: dict[str, Any]) -> None:
        """Takes librdkafka's properties."""
        self._properties = properties
        self._client = new_admin(properties)
        self._bootstrap = str(properties["bootstrap.servers"])

    def all(self) -> dict[str, dict[str, int]]:
        """By name: the mechanisms of each, with their iterations."""
        with WireAdmin(self._bootstrap, self._properties, timeout_s=SECONDS_MAX) as admin:
            reply = admin.call(DescribeUserScramCredentialsRequest(users=None))
        raise_for(reply.error_code, "could not list the users", reply.error_message)
        return {
            user.user: {ListedMechanism(info.mechanism).title: info.iterations for info in user.credential_infos}
            for user in reply.results
        }

    def set_password(self, name: str, password: str) -> None:
        """Add a user, or give one another password."""
        secret = password.encode()
        credentials = [ScramCredentialInfo(mechanism, ITERATIONS) for mechanism in MECHANISMS]
        self._alter("change", name, [UserScramCredentialUpsertion(name, each, secret) for each in credentials])

    def remove(self, name: str, mechanisms: set[str]) -> None:
        """Take these mechanisms of a user away."""
        kept = [mechanism for mechanism in MECHANISMS if _title(mechanism) in mechanisms]
        self._alter("remove", name, [UserScramCredentialDeletion(name, mechanism) for mechanism in kept])

    def _alter(self, verb: str, name: str, alterations: list[Any]) -> None:
        alter = self._client.alter_user_scram_credentials
        attempt(f"{verb} the user {name}", self._bootstrap, lambda: alter(alterations)[name].result(SECONDS_MAX))


def _title(mechanism: Any) -> str:
    return str(mechanism.name).replace("_", "-")
