"""What only etcd can do to us: members that die, answers that get lost, history that is forgotten, passwords."""

import asyncio
import base64
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from headrace.controller.entries import Put, absent
from headrace.host.entropy import SystemEntropy
from headrace.metadata import etcd as etcd_module
from headrace.metadata.etcd import TOKENS, EtcdStore
from headrace.metadata.etcd_http import EtcdAddress, EtcdHttp, Unanswered, check_version
from headrace.metadata.store import RevisionCompacted, StoreRefused, StoreUnavailable, WatchBatch
from headrace.testing.etcd import EtcdCluster, etcd_program, free_port, wait_healthy

pytestmark = pytest.mark.etcd


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    if etcd_program() is None:
        pytest.skip("etcd is not installed (Debian: apt install etcd-server)")
    with EtcdCluster(tmp_path_factory.mktemp("three"), member_count=3) as cluster:
        yield cluster


def open_store(cluster: EtcdCluster, namespace: str, endpoints: tuple[str, ...] = ()) -> EtcdStore:
    return EtcdStore(EtcdAddress(endpoints=endpoints or cluster.endpoints), SystemEntropy(), namespace)


async def post(url: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    async with aiohttp.ClientSession() as session, session.post(url + path, data=json.dumps(body)) as reply:
        answer: dict[str, Any] = await reply.json(content_type=None)
        return answer


async def leader_of(cluster: EtcdCluster) -> int:
    for number, url in enumerate(cluster.endpoints):
        status = await post(url, "/v3/maintenance/status", {})
        if status["leader"] == status["header"]["member_id"]:
            return number
    raise AssertionError("no leader")


def test_a_watch_and_writes_go_on_when_the_leader_is_killed_and_lose_nothing(three: EtcdCluster) -> None:
    async def run() -> None:
        store = open_store(three, "kill")
        start = (await store.list("")).revision + 1
        seen: list[int] = []

        async def watch() -> None:
            async for batch in store.watch("n/", start):
                seen.extend(int(event.key[2:]) for event in batch.events)
                if len(seen) >= 60:
                    return

        watching = asyncio.ensure_future(watch())
        leader = await leader_of(three)
        for number in range(60):
            if number == 20:
                three.members[leader].kill()
            result = await store.transact([absent(f"n/{number}")], [Put(f"n/{number}", b"")])
            assert result.succeeded
        await asyncio.wait_for(watching, 20)

        assert seen == list(range(60))
        three.members[leader].start()
        await wait_healthy(three.members[leader].client_url)
        await store.close()

    asyncio.run(run())


def test_a_member_that_is_not_there_is_skipped(three: EtcdCluster) -> None:
    async def run() -> None:
        nobody = f"http://127.0.0.1:{free_port()}"
        store = open_store(three, "skip", (nobody, three.endpoints[0]))

        assert (await store.transact([], [Put("a", b"1")])).succeeded
        await store.close()

    asyncio.run(run())


def test_a_member_that_went_silent_costs_neither_a_lease_nor_the_watch(three: EtcdCluster) -> None:
    async def run() -> None:
        silent = (await leader_of(three) + 1) % 3
        endpoints = (three.endpoints[silent], *(url for url in three.endpoints if url != three.endpoints[silent]))
        store, other = open_store(three, "silent", endpoints), open_store(three, "silent", endpoints[1:])
        loop = asyncio.get_running_loop()
        lease = await store.grant_lease(60)
        watch = store.watch("a", (await store.list("")).revision + 1)
        await store.transact([], [Put("a", b"0")])
        await anext(watch)
        following = asyncio.ensure_future(anext(watch))
        three.members[silent].pause()
        try:
            began = loop.time()
            await store.keep_alive(lease)
            renewed_after = loop.time() - began
            await other.transact([], [Put("a", b"1")])
            await asyncio.wait_for(following, 4)
        finally:
            three.members[silent].resume()

        assert renewed_after < 1.5
        assert [event.item and event.item.value for event in following.result().events] == [b"1"]
        await wait_healthy(three.endpoints[silent])
        for each in (store, other):
            await each.close()

    asyncio.run(run())


def test_members_that_are_slow_are_not_given_up(etcd: EtcdCluster) -> None:
    """Each takes longer than the next one is kept waiting: whoever gave up on them in turn would never be answered."""

    async def run() -> None:
        async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, delay_s: float) -> None:
            with closing(target):
                while data := await source.read(65_536):
                    await asyncio.sleep(delay_s)
                    target.write(data)

        async def delayed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            answers, requests = await asyncio.open_connection("127.0.0.1", int(etcd.endpoints[0].rpartition(":")[2]))
            await asyncio.gather(pass_on(reader, requests, 1.0), pass_on(answers, writer, 0.0))

        servers = [await asyncio.start_server(delayed, "127.0.0.1", 0) for _ in range(2)]
        slow = tuple(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in servers)
        store, quick = open_store(etcd, "slow", slow), open_store(etcd, "slow")
        store._http._checked.update(slow)
        lease = await quick.grant_lease(60)
        loop = asyncio.get_running_loop()
        began = loop.time()

        assert await store.keep_alive(lease) > 0
        assert loop.time() - began < 2.0
        for each in (store, quick):
            await each.close()
        for server in servers:
            server.close()

    asyncio.run(run())


def test_a_member_without_a_leader_is_not_believed(three: EtcdCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_module, "CALL_TIMEOUT_S", 4.0)

    async def run() -> None:
        only_first = open_store(three, "lonely", three.endpoints[:1])
        await only_first.transact([], [Put("a", b"1")])
        lease = await only_first.grant_lease(60)
        for member in three.members[1:]:
            member.pause()
        try:
            with pytest.raises(StoreUnavailable):
                await only_first.get("a")
            # The gateway words this refusal differently, and a lease is not lost by it.
            with pytest.raises(StoreUnavailable):
                await only_first.keep_alive(lease)
        finally:
            for member in three.members[1:]:
                member.resume()
        monkeypatch.undo()
        for member in three.members:
            await wait_healthy(member.client_url)
        assert (await only_first.get("a")) is not None
        await only_first.close()

    asyncio.run(run())


def test_a_transaction_whose_answer_was_lost_is_reported_as_done(etcd: EtcdCluster) -> None:
    async def run() -> None:
        store = open_store(etcd, "lost-answer")
        lost: list[Any] = []
        real = store._http.call_once

        async def call_once(path: str, body: dict[str, Any]) -> dict[str, Any]:
            answer = await real(path, body)
            if path == "/v3/kv/txn" and not lost:
                lost.append(answer)
                raise Unanswered("the answer got lost", reached=True)
            return answer

        store._http.call_once = call_once  # type: ignore[method-assign]
        result = await store.transact([absent("a")], [Put("a", b"1")])
        item = await store.get("a")

        assert lost
        assert result.succeeded
        assert item is not None
        assert item.mod_revision == result.revision
        await store.close()

    asyncio.run(run())


def test_a_transaction_that_never_arrived_is_sent_again_and_happens_once(etcd: EtcdCluster) -> None:
    async def run() -> None:
        store = open_store(etcd, "lost-request")
        real, held = store._http.call_once, list[dict[str, Any]]()

        async def call_once(path: str, body: dict[str, Any]) -> dict[str, Any]:
            if path == "/v3/kv/txn" and not held:
                held.append(body)
                raise Unanswered("lost on the way", reached=True)
            return await real(path, body)

        store._http.call_once = call_once  # type: ignore[method-assign]
        result = await store.transact([], [Put("a", b"1")])
        before = await store.get("a")
        # The lost request turns up after all, long after we were told that it had not happened.
        late = await real("/v3/kv/txn", held[0])
        after = await store.get("a")

        assert result.succeeded
        assert not late.get("succeeded")
        assert before == after
        await store.close()

    asyncio.run(run())


def test_a_watch_from_a_revision_that_etcd_forgot_says_so(etcd: EtcdCluster) -> None:
    async def run() -> None:
        store = open_store(etcd, "compact")
        start = (await store.transact([], [Put("a", b"1")])).revision
        end = (await store.transact([], [Put("a", b"2")])).revision
        await post(etcd.endpoints[0], "/v3/kv/compaction", {"revision": str(end)})

        with pytest.raises(RevisionCompacted):
            await anext(store.watch("", start))
        await store.close()

    asyncio.run(run())


def test_tokens_are_never_shown(etcd: EtcdCluster) -> None:
    async def run() -> None:
        store = open_store(etcd, "tokens")
        await store.transact([], [Put("a", b"1")])
        listing = await store.list("")
        raw = await post(
            etcd.endpoints[0],
            "/v3/kv/range",
            {"key": base64.b64encode(b"tokens/").decode(), "range_end": base64.b64encode(b"tokens0").decode()},
        )

        assert [item.key for item in listing.items] == ["a"]
        assert sum(TOKENS.encode() in base64.b64decode(kv["key"]) for kv in raw["kvs"]) == 1
        await store.close()

    asyncio.run(run())


async def first(batches: AsyncIterator[WatchBatch]) -> AsyncIterator[WatchBatch]:
    """Only the first of them that has events."""
    async for batch in batches:
        if batch.events:
            yield batch
            return


def test_what_etcd_says_in_plain_words_is_passed_on() -> None:
    http = EtcdHttp(EtcdAddress(endpoints=("http://x",)))

    assert "CommonName of client" in str(http._refusal("http://x", 400, b"CommonName of client sending a request\n"))


@pytest.mark.parametrize(("code", "is_final"), [(2, False), (8, False), (14, False), (3, True), (7, True)])
def test_what_may_pass_is_tried_again_and_what_will_not_is_told(code: int, is_final: bool) -> None:
    http = EtcdHttp(EtcdAddress(endpoints=("http://x",)))
    refusal = http._refusal("http://x", 500, json.dumps({"code": code, "message": "raft proposal dropped"}).encode())

    assert isinstance(refusal, StoreRefused if is_final else Unanswered)


def test_a_store_that_asks_for_a_password_gets_it(tmp_path: Path) -> None:
    if etcd_program() is None:
        pytest.skip("etcd is not installed (Debian: apt install etcd-server)")

    async def run(cluster: EtcdCluster) -> None:
        url = cluster.endpoints[0]
        await post(url, "/v3/auth/user/add", {"name": "root", "password": "secret"})
        await post(url, "/v3/auth/role/add", {"name": "root"})
        await post(url, "/v3/auth/user/grant", {"user": "root", "role": "root"})
        await post(url, "/v3/auth/enable", {})
        address = EtcdAddress(endpoints=cluster.endpoints, user="root", password="secret")
        store = EtcdStore(address, SystemEntropy())
        stranger = EtcdStore(EtcdAddress(endpoints=cluster.endpoints), SystemEntropy())

        assert (await store.transact([], [Put("a", b"1")])).succeeded
        with pytest.raises(Exception, match=r"user name is empty|permission denied"):
            await stranger.get("a")
        store._http._token = "expired.token"
        assert (await store.get("a")) is not None
        store._http._token = "expired.token"
        assert [batch.events[0].key async for batch in first(store.watch("", 1))] == ["a"]
        mistaken = EtcdStore(EtcdAddress(endpoints=cluster.endpoints, user="root", password="wrong"), SystemEntropy())
        with pytest.raises(StoreRefused, match="password"):
            await mistaken.get("a")
        for each in (store, stranger, mistaken):
            await each.close()

    with EtcdCluster(tmp_path) as cluster:
        asyncio.run(run(cluster))


def test_a_store_with_certificates_is_reached_over_tls(tmp_path: Path) -> None:
    if etcd_program() is None:
        pytest.skip("etcd is not installed (Debian: apt install etcd-server)")
    import ssl

    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command += ["-keyout", str(key), "-out", str(certificate), "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    url, peer = f"https://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    etcd_command = [etcd_program() or "", "--name", "m", "--data-dir", str(tmp_path / "m"), "--listen-client-urls", url]
    etcd_command += ["--advertise-client-urls", url, "--cert-file", str(certificate), "--key-file", str(key)]
    etcd_command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"m={peer}"]
    process = subprocess.Popen(etcd_command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    async def run() -> None:
        trusted = EtcdAddress(endpoints=(url,), ssl_context=ssl.create_default_context(cafile=str(certificate)))
        store = EtcdStore(trusted, SystemEntropy())

        assert (await store.transact([], [Put("a", b"1")])).succeeded
        await store.close()

    try:
        asyncio.run(run())
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("version", ["3.5.0", "3.5.1", "3.5.2", "3.3.27", "2.3.8"])
def test_releases_that_lose_data_or_lack_what_we_need_are_refused(version: str) -> None:
    with pytest.raises(StoreRefused, match=version):
        check_version("http://x", version)


@pytest.mark.parametrize("version", ["3.4.23", "3.5.3", "3.5.21", "3.6.0"])
def test_other_releases_are_welcome(version: str) -> None:
    check_version("http://x", version)
