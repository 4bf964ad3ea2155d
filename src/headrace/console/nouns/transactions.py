"""Transactional ids, all in one answer: what each is at, since when, and where."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from headrace.client.admin.wire_admin import raise_for
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations
from headrace.wire.messages.describe_transactions import DescribeTransactionsRequest
from headrace.wire.messages.list_transactions import ListTransactionsRequest
from headrace.wire.messages.metadata import MetadataRequest

operations = Operations("console transactions")
SHOWN_MAX: Final = 2000


@operations.get("/console/api/transactions", "All transactional ids", listed=False)
async def list_transactions(call: Call) -> dict[str, Any]:
    cluster = call.caller.cluster
    brokers = [each.node_id for each in (await cluster.call(MetadataRequest(topics=()))).brokers]
    request = ListTransactionsRequest(state_filters=(), producer_id_filters=(), duration_filter=-1, transactional_id_pattern=None)
    replies = await asyncio.gather(*(cluster.call(request, broker=each) for each in brokers))
    found = []
    for broker, reply in zip(brokers, replies, strict=True):
        raise_for(reply.error_code, "the transactions")
        ids = [each.transactional_id for each in reply.transaction_states][:SHOWN_MAX]
        if ids:
            described = await cluster.call(DescribeTransactionsRequest(transactional_ids=tuple(ids)), broker=broker)
            found += [_row(each, broker) for each in described.transaction_states if not each.error_code]
    return {"transactions": sorted(found, key=lambda row: (row["state"] != "Ongoing", row["id"]))}


def _row(told: Any, broker: int) -> dict[str, Any]:
    is_open = told.transaction_state == "Ongoing" and told.transaction_start_time_ms >= 0
    return {
        "id": told.transactional_id,
        "state": told.transaction_state,
        "producer": told.producer_id,
        "epoch": told.producer_epoch,
        "coordinator": broker,
        "began": told.transaction_start_time_ms if is_open else None,
        "seconds": max(0, int(time.time() - told.transaction_start_time_ms / 1000)) if is_open else None,
        "timeout_ms": told.transaction_timeout_ms,
        "partitions": [[topic.topic, index] for topic in told.topics for index in topic.partitions],
    }
