"""AlterUserScramCredentials: sets and removes what is kept of passwords; each user is answered by itself (KIP-554)."""

from headrace.broker.network.dispatch import RequestContext
from headrace.controller.access.scram_credentials import Alteration, Deletion, Upsertion, alter_scram_credentials
from headrace.controller.entries import ConditionalWrite
from headrace.controller.image import ClusterImage
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


async def handle(
    request: AlterUserScramCredentialsRequest, context: RequestContext, cluster: ClusterMetadata
) -> AlterUserScramCredentialsResponse:
    by_user: dict[str, list[Alteration]] = {}
    for deletion in request.deletions:
        by_user.setdefault(deletion.name, []).append(Deletion(user=deletion.name, mechanism=deletion.mechanism))
    for upsertion in request.upsertions:
        by_user.setdefault(upsertion.name, []).append(
            Upsertion(
                user=upsertion.name,
                mechanism=upsertion.mechanism,
                iterations=upsertion.iterations,
                salt=bytes(upsertion.salt),
                salted_password=bytes(upsertion.salted_password),
            )
        )
    results = [await _altered(cluster, user, alterations) for user, alterations in by_user.items()]
    return AlterUserScramCredentialsResponse(results=tuple(results))


async def _altered(cluster: ClusterMetadata, user: str, alterations: list[Alteration]) -> AlterUserScramCredentialsResult:
    def alter(image: ClusterImage) -> list[ConditionalWrite]:
        write = alter_scram_credentials(image, alterations)[user]
        if isinstance(write, RequestError):
            raise write
        return [write]

    try:
        await cluster.submit(alter)
    except RequestError as error:
        return AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)
    return AlterUserScramCredentialsResult(user=user, error_code=ErrorCode.NONE)
