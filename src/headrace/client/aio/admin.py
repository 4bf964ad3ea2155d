"""Administration for asyncio: every call runs in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, Unpack

from headrace.client.admin.admin import Admin, At
from headrace.client.admin.descriptions import ClusterDescription, GroupDescription, GroupListing, Setting, TopicDescription
from headrace.model.identity import TopicPartition

if TYPE_CHECKING:
    from headrace.client.options import AdminOptions, TopicOptions


class AsyncAdmin:
    """Asks and changes what a cluster holds: Admin, with every call awaited."""

    def __init__(self, bootstrap: str | Iterable[str] | None = None, **settings: Unpack[AdminOptions]) -> None:
        self._admin = Admin(bootstrap, **settings)

    async def create_topic(self, name: str, **options: Unpack[TopicOptions]) -> None:
        """As Admin.create_topic."""
        await asyncio.to_thread(self._admin.create_topic, name, **options)

    async def delete_topic(self, name: str, *, missing_ok: bool = False) -> None:
        """As Admin.delete_topic."""
        await asyncio.to_thread(self._admin.delete_topic, name, missing_ok=missing_ok)

    async def topics(self, names: Iterable[str] | None = None, *, internal: bool = False) -> dict[str, TopicDescription]:
        """As Admin.topics."""
        return await asyncio.to_thread(self._admin.topics, names, internal=internal)

    async def topic_names(self) -> list[str]:
        """As Admin.topic_names."""
        return await asyncio.to_thread(self._admin.topic_names)

    async def topic(self, name: str) -> TopicDescription:
        """As Admin.topic."""
        return await asyncio.to_thread(self._admin.topic, name)

    async def add_partitions(self, topic: str, total: int) -> None:
        """As Admin.add_partitions."""
        await asyncio.to_thread(self._admin.add_partitions, topic, total)

    async def delete_records(self, topic: str, before: Mapping[int, int | None]) -> dict[int, int]:
        """As Admin.delete_records."""
        return await asyncio.to_thread(self._admin.delete_records, topic, before)

    async def settings(self, topic: str) -> dict[str, Setting]:
        """As Admin.settings."""
        return await asyncio.to_thread(self._admin.settings, topic)

    async def change_settings(self, topic: str, settings: Mapping[str, object]) -> None:
        """As Admin.change_settings."""
        await asyncio.to_thread(self._admin.change_settings, topic, settings)

    async def offsets(self, topic: str, at: At = "latest") -> dict[int, int]:
        """As Admin.offsets."""
        return await asyncio.to_thread(self._admin.offsets, topic, at)

    async def find_offsets(
        self, at: Mapping[TopicPartition, At], *, isolation: Literal["read_committed", "read_uncommitted"] = "read_uncommitted"
    ) -> dict[TopicPartition, int | None]:
        """As Admin.find_offsets."""
        return await asyncio.to_thread(self._admin.find_offsets, at, isolation=isolation)

    async def groups(self) -> list[str]:
        """As Admin.groups."""
        return await asyncio.to_thread(self._admin.groups)

    async def group_listings(self) -> list[GroupListing]:
        """As Admin.group_listings."""
        return await asyncio.to_thread(self._admin.group_listings)

    async def group(self, name: str) -> GroupDescription:
        """As Admin.group."""
        return await asyncio.to_thread(self._admin.group, name)

    async def committed(self, group: str) -> dict[TopicPartition, int]:
        """As Admin.committed."""
        return await asyncio.to_thread(self._admin.committed, group)

    async def committed_notes(self, group: str, topic: str) -> dict[int, tuple[int, str | None]]:
        """As Admin.committed_notes."""
        return await asyncio.to_thread(self._admin.committed_notes, group, topic)

    async def lag(self, group: str) -> dict[TopicPartition, int]:
        """As Admin.lag."""
        return await asyncio.to_thread(self._admin.lag, group)

    async def set_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """As Admin.set_offsets."""
        await asyncio.to_thread(self._admin.set_offsets, group, offsets)

    async def reset_offsets(self, group: str, topic: str, to: At) -> dict[int, int]:
        """As Admin.reset_offsets."""
        return await asyncio.to_thread(self._admin.reset_offsets, group, topic, to)

    async def delete_group(self, name: str, *, missing_ok: bool = False) -> None:
        """As Admin.delete_group."""
        await asyncio.to_thread(self._admin.delete_group, name, missing_ok=missing_ok)

    async def cluster(self) -> ClusterDescription:
        """As Admin.cluster."""
        return await asyncio.to_thread(self._admin.cluster)

    async def close(self) -> None:
        """As Admin.close."""
        self._admin.close()

    async def __aenter__(self) -> Self:
        self._admin.__enter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._admin.close()
