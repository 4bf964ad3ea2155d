"""The store of a cluster: etcd, through its JSON gateway.

A transaction whose answer was lost is settled before anything else happens: each carries a token key of its own, written only if
it succeeds.  Afterwards either the token is there (it happened, at the token's revision) or we write the token ourselves, after
which the lost transaction can never happen.  Tokens live under a lease and vanish.  They lie inside the watched range, so that
the revision of every transaction of ours reaches our own watch, even when nothing else changed.
"""

import asyncio
import base64
import logging
import math
from collections.abc import AsyncIterator, Sequence
from typing import Any

from headrace.controller.entries import (
    Compare,
    CompareCreated,
    Condition,
    Delete,
    DeletePrefix,
    Event,
    Exists,
    KeyValue,
    Operation,
    Put,
)
from headrace.host.entropy import Entropy
from headrace.metadata.etcd_http import EtcdAddress, EtcdError, EtcdHttp, Unanswered
from headrace.metadata.store import (
    OPERATIONS_MAX,
    LeaseLost,
    Listing,
    RevisionCompacted,
    StoreUnavailable,
    TransactionResult,
    WatchBatch,
)

logger = logging.getLogger(__name__)

CALL_TIMEOUT_S = 10.0
SETTLE_TIMEOUT_S = 30.0
PAGE_KEYS = 2_000
TOKENS = "~tokens/"  # sorts after all other keys
TOKEN_LEASE_S = 120.0
KEEP_ALIVE_STAGGER_S = 0.6  # so short that a member which went silent does not cost the lease: the next one is asked in time
WATCH_IDLE_S = 5.0  # after silence the watch is opened anew: a connection that was cut without a word would stay silent for ever
WATCH_PAUSE_S, WATCH_PAUSE_S_MAX = 0.1, 1.0
NOT_FOUND = 5


class EtcdStore:
    """Satisfies MetadataStore.  All keys lie under `namespace`, so that clusters can share an etcd."""

    operations_max = OPERATIONS_MAX

    def __init__(self, address: EtcdAddress, entropy: Entropy, namespace: str = "headrace") -> None:
        self._http = EtcdHttp(address)
        self._entropy = entropy
        self._root = namespace.rstrip("/") + "/"
        self._token_lease = 0
        self._token_lease_until = 0.0
        self._closed = False

    async def get(self, key: str) -> KeyValue | None:
        answer = await self._call("/v3/kv/range", {"key": self._encode(key)})
        return self._item(answer["kvs"][0]) if answer.get("kvs") else None

    async def list(self, prefix: str) -> Listing:
        """Read page by page, all at the revision of the first."""
        items: list[KeyValue] = []
        start, end, revision = self._encode(prefix), _end_of(self._root + prefix), 0
        while True:
            page = await self._call("/v3/kv/range", _range(start, end, revision))
            revision = revision or int(page["header"]["revision"])
            found = [self._item(kv) for kv in page.get("kvs", ())]
            items += (item for item in found if not item.key.startswith(TOKENS))
            if not page.get("more"):
                return Listing(tuple(items), revision)
            start = _base64(self._root + found[-1].key + "\0")

    async def transact(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> TransactionResult:
        assert len(operations) <= self.operations_max, f"{len(operations)} operations in one transaction"
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CALL_TIMEOUT_S
        fresh_lease = False
        while True:
            token = TOKENS + self._entropy.uuid().hex
            try:
                return await self._transact_once(token, conditions, operations)
            except EtcdError as error:
                if error.code != NOT_FOUND:
                    raise
                if fresh_lease:
                    raise LeaseLost(str(error)) from error
                self._token_lease, fresh_lease = 0, True  # ours may be the one that ended: only a fresh one tells
            except Unanswered as error:
                if error.reached and (revision := await self._settle(token)):
                    return TransactionResult(True, revision)
                if loop.time() >= deadline:
                    raise StoreUnavailable(f"etcd does not answer: {error}") from error
                await asyncio.sleep(WATCH_PAUSE_S)

    async def _transact_once(
        self, token: str, conditions: Sequence[Condition], operations: Sequence[Operation]
    ) -> TransactionResult:
        lease = await self._lease_of_tokens()
        body = {
            "compare": [self._compare(condition) for condition in (Compare(token, 0), *conditions)],
            "success": [self._operation(operation) for operation in (*operations, Put(token, b"", lease))],
        }
        answer = await self._http.call_once("/v3/kv/txn", body)
        return TransactionResult(bool(answer.get("succeeded")), int(answer["header"]["revision"]))

    async def _settle(self, token: str) -> int:
        """After a lost answer: the revision at which the transaction happened, or 0 and it never will."""
        body = {
            "compare": [self._compare(Compare(token, 0))],
            "success": [self._operation(Put(token, b"void", await self._lease_of_tokens()))],
            "failure": [{"request_range": {"key": self._encode(token)}}],
        }
        answer = await self._call("/v3/kv/txn", body, SETTLE_TIMEOUT_S)
        if answer.get("succeeded"):
            return 0
        found = self._item(answer["responses"][0]["response_range"]["kvs"][0])
        # Our own attempt to settle may have been the one whose answer was lost.
        return 0 if found.value == b"void" else found.mod_revision

    async def _lease_of_tokens(self) -> int:
        now = asyncio.get_running_loop().time()
        if self._token_lease == 0 or now >= self._token_lease_until:
            self._token_lease = await self.grant_lease(TOKEN_LEASE_S)
            # A token must outlive the settling of its transaction by far.
            self._token_lease_until = now + TOKEN_LEASE_S - 2 * SETTLE_TIMEOUT_S
        return self._token_lease

    async def grant_lease(self, ttl_s: float) -> int:
        answer = await self._call("/v3/lease/grant", {"TTL": str(math.ceil(ttl_s))})
        return int(answer["ID"])

    async def keep_alive(self, lease: int) -> float:
        self._require_open()
        answer = await self._http.call_quickest("/v3/lease/keepalive", {"ID": str(lease)}, KEEP_ALIVE_STAGGER_S)
        ttl_s = int(answer.get("result", {}).get("TTL", 0))
        if ttl_s <= 0:
            raise LeaseLost(f"lease {lease} has ended")
        return float(ttl_s)

    async def revoke(self, lease: int) -> None:
        try:
            await self._call("/v3/lease/revoke", {"ID": str(lease)})
        except EtcdError as error:
            if error.code != NOT_FOUND:
                raise

    async def watch(self, prefix: str, start_revision: int) -> AsyncIterator[WatchBatch]:
        next_revision, failures = start_revision, 0
        while not self._closed:
            try:
                async for batch in self._watch_once(prefix, next_revision):
                    next_revision, failures = batch.revision + 1, 0
                    yield batch
            except Unanswered as error:
                failures += 1
                level = logging.INFO if failures == 1 else logging.DEBUG
                logger.log(level, "watch interrupted, resuming at revision %d: %s", next_revision, error)
                await asyncio.sleep(min(WATCH_PAUSE_S * failures, WATCH_PAUSE_S_MAX))

    async def _watch_once(self, prefix: str, start_revision: int) -> AsyncIterator[WatchBatch]:
        request = {
            "key": self._encode(prefix),
            "range_end": _end_of(self._root + prefix),
            "start_revision": str(start_revision),
        }
        async for line in self._http.stream("/v3/watch", {"create_request": request}, WATCH_IDLE_S):
            result = line.get("result")
            if result is None:
                self._http.log_in_again()
                raise Unanswered(str(line.get("error")), reached=False)
            if int(result.get("compact_revision", 0)):
                raise RevisionCompacted(f"etcd forgot everything before revision {result['compact_revision']}")
            if result.get("canceled"):
                self._http.log_in_again()
                self._http.rotate()
                raise Unanswered(str(result.get("cancel_reason", "canceled")), reached=False)
            if result.get("events"):
                events = [self._event(event) for event in result["events"]]
                visible = tuple(event for event in events if not event.key.startswith(TOKENS))
                yield WatchBatch(events[-1].revision, visible)

    async def close(self) -> None:
        self._closed = True
        await self._http.close()

    def _require_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")

    async def _call(self, path: str, body: dict[str, Any], timeout_s: float = CALL_TIMEOUT_S) -> dict[str, Any]:
        self._require_open()
        return await self._http.call(path, body, timeout_s)

    def _encode(self, key: str) -> str:
        return _base64(self._root + key)

    def _decode(self, key: str) -> str:
        return base64.b64decode(key).decode()[len(self._root) :]

    def _item(self, kv: dict[str, Any]) -> KeyValue:
        return KeyValue(
            self._decode(kv["key"]),
            base64.b64decode(kv.get("value", "")),
            int(kv["create_revision"]),
            int(kv["mod_revision"]),
            int(kv.get("lease", 0)),
        )

    def _event(self, event: dict[str, Any]) -> Event:
        kv = event["kv"]
        if event.get("type") == "DELETE":
            return Event(self._decode(kv["key"]), None, int(kv["mod_revision"]))
        item = self._item(kv)
        return Event(item.key, item, item.mod_revision)

    def _compare(self, condition: Condition) -> dict[str, Any]:
        key = self._encode(condition.key)
        match condition:
            case Compare(_, revision):
                return {"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}
            case CompareCreated(_, revision):
                return {"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": str(revision)}
            case Exists():
                return {"key": key, "target": "CREATE", "result": "GREATER", "create_revision": "0"}

    def _operation(self, operation: Operation) -> dict[str, Any]:
        match operation:
            case Put(key, value, lease):
                encoded = base64.b64encode(value).decode()
                return {"request_put": {"key": self._encode(key), "value": encoded, "lease": str(lease)}}
            case Delete(key):
                return {"request_delete_range": {"key": self._encode(key)}}
            case DeletePrefix(prefix):
                return {"request_delete_range": {"key": self._encode(prefix), "range_end": _end_of(self._root + prefix)}}


def _range(start: str, end: str, revision: int) -> dict[str, Any]:
    return {"key": start, "range_end": end, "limit": str(PAGE_KEYS), "revision": str(revision)}


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _end_of(prefix: str) -> str:
    """The first key after all that begin with the prefix."""
    data = prefix.encode()
    return base64.b64encode(data[:-1] + bytes([data[-1] + 1])).decode()
