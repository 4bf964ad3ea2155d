"""A share consumer on a bare connection: joins, counts the epochs of its session, takes and acknowledges."""

from typing import Any

from headrace.model.errors import ErrorCode
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support import share_requests
from tests.support.raw import RawClient, ask_until_created, batch, produce
from tests.support.share_requests import HEARTBEAT_VERSION, VERSION, acquired
from tests.support.waiting import until

GROUP = 32


def set_of_group(client: RawClient, group: str, **settings: str) -> ErrorCode:
    """Settings of a group, with underscores for dots."""
    configs = tuple(
        AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value) for name, value in settings.items()
    )
    resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=configs)
    reply = client.call(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False), 1)
    return ErrorCode(reply.responses[0].error_code)


class ShareMember:
    """Member of one group, at work on one topic, which comes to be with it."""

    def __init__(self, client: RawClient, group: str, topic: str, member: str = "ann", *, early: bool = True) -> None:
        self.client = client
        self.group = group
        self.topic = topic
        self.member = member
        self.member_epoch = 0
        self.session_epoch = 0
        self.topic_id = ask_until_created(client, topic).topic_id
        if early:
            assert set_of_group(client, group, share_auto_offset_reset="earliest") == ErrorCode.NONE

    def join(self) -> "ShareMember":
        self.client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=(self.group,)), 4)
        until(self._is_assigned, "the member has its partitions")
        return self

    def _is_assigned(self) -> bool:
        reply = self.beat()
        return bool(not reply.error_code and reply.assignment is not None and reply.assignment.topic_partitions)

    def beat(self) -> Any:
        request = share_requests.heartbeat(self.group, self.member, self.member_epoch, self.topic)
        return self.client.call(request, HEARTBEAT_VERSION)

    def leave(self) -> None:
        self.member_epoch = -1
        assert self.beat().error_code == ErrorCode.NONE

    def produce(self, *values: bytes) -> None:
        self.client.call(produce(self.topic, batch(*values)), 9)

    def fetch(self, **more: Any) -> Any:
        indexes = (0,) if self.session_epoch == 0 else ()
        request = share_requests.fetch(self.group, self.member, self.session_epoch, self.topic_id, indexes, **more)
        reply = self.client.call(request, VERSION)
        self._count(reply)
        return reply

    def take(self, **more: Any) -> list[tuple[int, int, int]]:
        reply = self.fetch(**{"max_wait_ms": 200, **more})
        assert reply.error_code == ErrorCode.NONE, reply
        return acquired(reply)

    def say(self, first: int, last: int, *types: int) -> ErrorCode:
        request = share_requests.acknowledge(self.group, self.member, self.session_epoch, self.topic_id, first, last, *types)
        reply = self.client.call(request, VERSION)
        self._count(reply)
        assert reply.error_code == ErrorCode.NONE, reply
        return ErrorCode(reply.responses[0].partitions[0].error_code)

    def _count(self, reply: Any) -> None:
        if reply.error_code == ErrorCode.NONE:
            self.session_epoch += 1
