"""Confluent's REST v3 for those who write: `POST /v3/clusters/{cluster}/topics/{topic}/records`, one record or several."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any, Final

from aiohttp import web

from headrace.gateway.api.call import Call, read_whole
from headrace.gateway.api.operations import Operations
from headrace.gateway.confluent.answers import answered, error_document, in_their_form
from headrace.gateway.records.formats import encoded
from headrace.gateway.records.produce import Raw, write
from headrace.gateway.serving.problems import Problem, bad_request, not_found

operations = Operations("confluent")

FORMATS: Final = {"JSON": "json", "STRING": "text", "BINARY": "binary"}
JSON: Final = "application/json"
SCHEMA_TYPES: Final = ("AVRO", "JSONSCHEMA", "PROTOBUF")
v3 = partial(in_their_form, v3=True)


@operations.get("/v3/clusters", "List clusters, as Confluent's REST v3", listed=False)
@v3
async def list_clusters(call: Call) -> web.StreamResponse:
    cluster = await call.caller.admin.cluster()
    metadata = {"self": "/v3/clusters", "next": None}
    data = {"kind": "KafkaCluster", "cluster_id": cluster.id, "metadata": {"self": f"/v3/clusters/{cluster.id}"}}
    return answered({"kind": "KafkaClusterList", "metadata": metadata, "data": [data]}, JSON)


@operations.post(
    "/v3/clusters/{cluster}/topics/{topic}/records", "Write records, as Confluent's REST v3", streams_in=True, listed=False
)
@v3
async def write_records(call: Call) -> web.StreamResponse:
    cluster = await call.caller.admin.cluster()
    if call.path("cluster") != cluster.id:
        raise not_found("cluster_not_found", "There is no such cluster.", "GET /v3/clusters shows the one there is.")
    raw = await read_whole(call.request, call.gateway.settings.limits.body_seconds)
    found = [await _raw(call, each) for each in _objects(raw)]
    if not found:
        raise bad_request("The body has no record.")
    topic, good = call.path("topic"), [each for each in found if isinstance(each, Raw)]
    receipts = iter(await write(call.caller, topic, good))
    answers = []
    for each in found:
        if isinstance(each, Problem):
            answers.append(error_document(each, v3=True))
            continue
        receipt = next(receipts)
        if receipt.error is not None:
            code, reason = receipt.error["status"], f"{receipt.error['detail']} {receipt.error['advice']}"
            answers.append({"error_code": code, "message": reason})
        else:
            answers.append(_answer(cluster.id, topic, each, receipt))
    if len(answers) == 1:
        code = answers[0]["error_code"]
        return answered(answers[0], JSON, 200 if code == 200 else int(code))
    return web.Response(body="\r\n".join(map(json.dumps, answers)).encode() + b"\r\n", content_type=JSON)


def _objects(raw: bytes) -> Iterator[Any]:
    """JSON objects one after the other, as a stream of theirs has them."""
    decoder = json.JSONDecoder()
    try:
        text = raw.decode()
        at = 0
        while (at := _skipped(text, at)) < len(text):
            found, at = decoder.raw_decode(text, at)
            yield found
    except ValueError:
        raise bad_request("The body is not JSON.") from None


def _skipped(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \r\n\t":
        at += 1
    return at


async def _raw(call: Call, given: Any) -> Raw | Problem:
    try:
        if not isinstance(given, dict):
            raise bad_request("A record must be an object.")
        partition = given.get("partition_id")
        if partition is not None and (not isinstance(partition, int) or isinstance(partition, bool) or partition < 0):
            raise bad_request("partition_id must be a whole number.")
        headers = [(str(each["name"]), encoded(each.get("value"), "binary", "a header")) for each in given.get("headers") or ()]
        key, value = await _data(call, given.get("key"), "key"), await _data(call, given.get("value"), "value")
        return Raw(key, value, headers or None, partition, _timestamp(given))
    except Problem as problem:
        return problem
    except (TypeError, KeyError, AttributeError):
        return bad_request("headers must be a list of names with base64 values.")


async def _data(call: Call, given: Any, what: str) -> bytes | None:
    if given is None:
        return None
    kind = given.get("type") if isinstance(given, dict) else None
    if kind in FORMATS:
        return encoded(given.get("data"), FORMATS[kind], what)
    if not isinstance(given, dict) or kind not in (None, *SCHEMA_TYPES):
        raise bad_request(f"The type of {what} must be BINARY, JSON, STRING, or one of {', '.join(SCHEMA_TYPES)}.")
    id, version = given.get("schema_id"), given.get("schema_version")
    if given.get("schema") is not None or not all(each is None or type(each) is int for each in (id, version)):
        raise bad_request(f"The schema of {what} is named by schema_id, or by subject and schema_version.", "Register it first.")
    subject = str(given.get("subject") or f"{call.path('topic')}-{what}")
    encoder = await call.gateway.by_schema.encoder_for(call.caller, id, subject, version)
    return None if given.get("data") is None else encoder(given["data"], what)


def _timestamp(given: dict[str, Any]) -> int | None:
    if given.get("timestamp") is None:
        return None
    try:
        return int(datetime.fromisoformat(str(given["timestamp"])).timestamp() * 1000)
    except ValueError:
        raise bad_request("timestamp must be an ISO timestamp.") from None


def _answer(cluster: str, topic: str, record: Raw, receipt: Any) -> dict[str, Any]:
    moment = time.gmtime((receipt.timestamp or 0) / 1000)
    found = {
        "error_code": 200,
        "cluster_id": cluster,
        "topic_name": topic,
        "partition_id": receipt.partition,
        "offset": receipt.offset,
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S", moment) + f".{(receipt.timestamp or 0) % 1000:03d}Z",
    }
    for name, data in (("key", record.key), ("value", record.value)):
        if data is not None:
            found[name] = {"type": "BINARY", "size": len(data)}
    return found
