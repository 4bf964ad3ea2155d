"""An operator who gives somebody a right and takes it away again, and in the end knows which of both the cluster has said."""

from collections.abc import Sequence
from typing import Final

from headrace.model.access.acls import ANY_HOST, Operation, PatternType, Permission, ResourceType
from headrace.model.access.principals import Subject, user
from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.wire.messages.create_acls import AclCreation, CreateAclsRequest
from headrace.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from simulation.clients.client import ClusterClient, Unavailable
from simulation.clients.working import PacedWorker

VERSION = 3
PAUSE_S = (0.3, 2.0)
SOMEBODY: Final = Subject(user("somebody"), address="somewhere")


class Ruler(PacedWorker):
    """Lets somebody write the topic, and then does not, and so on."""

    def __init__(self, client: ClusterClient) -> None:
        super().__init__(client, pause_s=PAUSE_S)
        self.topic = ""
        # As the last reply has it.
        self.is_allowed = False
        # Whether a request was given up that may be carried out at any time.
        self.is_unsure = False

    async def _act(self, partitions: Sequence[TopicPartition]) -> None:
        self.topic = partitions[0].topic
        request = self._revocation() if self.is_allowed else self._permission()
        while (code := await self._ask(request)) != ErrorCode.NONE:
            self._client.history.tell(f"a right is not changed yet: {code.name if code is not None else 'nobody answers'}")
            await self._client.back_off()
        self.is_allowed = not self.is_allowed
        self._client.history.tell(
            f"{SOMEBODY.principal} {'may write' if self.is_allowed else 'may no longer write'} {self.topic}"
        )

    async def _ask(self, request: CreateAclsRequest | DeleteAclsRequest) -> ErrorCode | None:
        """What a broker says; None where nobody does, and it is not known whether it was done."""
        try:
            response = await self._client.call_any(request, VERSION)
        except Unavailable:
            self.is_unsure = True
            return None
        results = response.results if isinstance(request, CreateAclsRequest) else response.filter_results
        return ErrorCode(results[0].error_code)

    def _permission(self) -> CreateAclsRequest:
        rule = AclCreation(
            resource_type=ResourceType.TOPIC,
            resource_name=self.topic,
            resource_pattern_type=PatternType.LITERAL,
            principal=str(SOMEBODY.principal),
            host=ANY_HOST,
            operation=Operation.WRITE,
            permission_type=Permission.ALLOW,
        )
        return CreateAclsRequest(creations=(rule,))

    def _revocation(self) -> DeleteAclsRequest:
        wanted = DeleteAclsFilter(
            resource_type_filter=ResourceType.TOPIC,
            resource_name_filter=self.topic,
            pattern_type_filter=PatternType.LITERAL,
            principal_filter=str(SOMEBODY.principal),
            host_filter=ANY_HOST,
            operation=Operation.WRITE,
            permission_type=Permission.ALLOW,
        )
        return DeleteAclsRequest(filters=(wanted,))
