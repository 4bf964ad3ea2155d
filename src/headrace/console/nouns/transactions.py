"""Transactions: which ids there are, which hang, where, and ending one by force."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from headrace.client.admin.wire_admin import WireAdmin, raise_for
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations
from headrace.gateway.callers.caller import Caller
from headrace.gateway.serving.problems import Problem, not_found
from headrace.model.errors import ErrorCode
from headrace.wire.messages.describe_transactions import DescribeTransactionsRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.list_transactions import ListTransactionsRequest
from headrace.wire.messages.metadata import MetadataRequest

operations = Operations("console transactions")
SHOWN_MAX: Final = 2000
TIMEOUT_MS: Final = 60_000
ABORT_S_MAX: Final = 20.0
AGAIN_S: Final = 0.2


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


@operations.delete("/console/api/transactions/{id}", "Abort an open transaction", listed=False)
async def abort(call: Call) -> dict[str, Any]:
    """As a new producer of the same id would: the old one is fenced, and what it wrote is aborted."""
    name, caller = call.path("id"), call.caller
    await asyncio.to_thread(_abort, caller, name)
    return {"aborted": name}


def _abort(caller: Caller, name: str) -> None:
    with WireAdmin(caller.bootstrap, caller.credentials.properties, client_id="headrace-console") as admin:
        (found,) = admin.call_coordinator(
            DescribeTransactionsRequest(transactional_ids=(name,)), name, "transaction"
        ).transaction_states
        if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise not_found("transaction_not_found", "There is no such transactional id.", "Look at the list again.")
        raise_for(found.error_code, f"transactional id '{name}'")
        if found.transaction_state != "Ongoing":
            raise Problem(409, "no_open_transaction", "Its transaction is not open any more.", "There is nothing to abort.")
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS)
        deadline = time.monotonic() + ABORT_S_MAX
        while True:
            code = ErrorCode(admin.call_coordinator(request, name, "transaction").error_code)
            if not code.retriable or code is ErrorCode.NONE or time.monotonic() > deadline:
                raise_for(code, f"aborting '{name}'")
                return
            time.sleep(AGAIN_S)
