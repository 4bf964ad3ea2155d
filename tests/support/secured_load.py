"""A load on a cluster that is closed: its users, its rules, and the histories of those who signed in."""

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from headrace.testing.cluster import ProcessCluster

USER, PASSWORD = "load", "a secret of the load's"
WAIT_S = 60


def let_in(cluster: ProcessCluster, user: str = USER, password: str = PASSWORD) -> dict[str, str]:
    """Make a user who may write and read everything, and nothing more; what its clients need."""
    config = let_in_without_rights(cluster, user, password)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for made in admin.create_acls([rule_for(user, AclOperation.WRITE), rule_for(user, AclOperation.READ)]).values():
        made.result(WAIT_S)
    return config


def let_in_without_rights(cluster: ProcessCluster, user: str, password: str) -> dict[str, str]:
    """Make a user who may sign in, and nothing more; what its clients need."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, credential, password.encode())])[user].result(WAIT_S)
    return cluster.client_config(user, password)


def let_write_no_more(cluster: ProcessCluster, user: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = AclBindingFilter(
        ResourceType.TOPIC, "*", ResourcePatternType.LITERAL, f"User:{user}", "*", AclOperation.WRITE, AclPermissionType.ALLOW
    )
    for removed in admin.delete_acls([wanted]).values():
        assert len(removed.result(WAIT_S)) == 1


def rule_for(user: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, "*", ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW
    )
