"""The registry over HTTP: Confluent's paths, parameters and error codes, and what several registries do on one topic."""

import asyncio
import json
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from headrace import Admin, Consumer, Producer
from headrace.registry.log.connection import Connection, TopicUnfit
from headrace.registry.log.schema_log import SchemaLog
from headrace.testing import Broker
from tests.support.registry import Registry

LONG = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
TOTAL = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"total","type":"double","default":0}]}'
TEXT = '{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}'
PROTO = 'syntax = "proto3"; package shop; message Order { int64 id = 1; }'


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[Registry]:
    with Registry(bootstrap, f"_schemas-{uuid.uuid4().hex[:8]}") as running:
        yield running


@pytest.fixture
def subject(topic: str) -> str:
    return f"{topic}-value"


def body(text: str, schema_type: str = "AVRO", **more: Any) -> dict[str, Any]:
    return {"schema": text, "schemaType": schema_type, **more}


def register(registry: Registry, subject: str, text: str, schema_type: str = "AVRO", **more: Any) -> int:
    status, answer = registry.ask("POST", f"/subjects/{subject}/versions", body(text, schema_type, **more))
    assert status == 200, answer
    return int(answer["id"])


def test_a_schema_is_registered_and_found_by_id_version_and_content(registry: Registry, subject: str) -> None:
    id = register(registry, subject, LONG)

    text = json.dumps(json.loads(LONG), separators=(",", ":"))
    by_id = registry.ask("GET", f"/schemas/ids/{id}")[1]
    assert by_id["schema"] == text
    latest = registry.ask("GET", f"/subjects/{subject}/versions/latest")[1]
    assert latest == {"subject": subject, "version": 1, "id": id, "schema": text, "guid": by_id["guid"]}
    assert registry.ask("POST", f"/subjects/{subject}", body(LONG))[1] == latest
    assert registry.ask("GET", f"/subjects/{subject}/versions")[1] == [1]
    assert registry.ask("GET", f"/schemas/ids/{id}/versions")[1][-1] == {"subject": subject, "version": 1}
    assert subject in registry.ask("GET", f"/schemas/ids/{id}/subjects")[1]
    assert registry.ask("GET", f"/schemas/guids/{by_id['guid']}/ids")[1] == [{"context": ".", "id": id}]
    assert registry.ask("GET", f"/schemas?subjectPrefix={subject}")[1] == [latest]
    assert subject in registry.ask("GET", "/subjects")[1]
    assert registry.ask("GET", f"/schemas/ids/{id}/schema")[1] == json.loads(LONG)
    assert registry.ask("GET", "/schemas/types")[1] == ["AVRO", "JSON", "PROTOBUF"]


@pytest.mark.parametrize(
    ("method", "path", "given", "status", "code"),
    [
        ("GET", "/subjects/nobody/versions", None, 404, 40401),
        ("GET", "/subjects/nobody/versions/1", None, 404, 40401),
        ("DELETE", "/subjects/nobody", None, 404, 40401),
        ("GET", "/schemas/ids/4711", None, 404, 40403),
        ("GET", "/schemas/guids/4711", None, 404, 40403),
        ("POST", "/subjects/nobody", body(LONG), 404, 40401),
        ("POST", "/subjects/x/versions", body("{"), 422, 42201),
        ("POST", "/subjects/x/versions", body(LONG, "XML"), 422, 42201),
        ("POST", "/subjects/x/versions", {"schemaType": "AVRO"}, 422, 42201),
        ("POST", "/subjects/x/versions", body(LONG, references=[{"name": "a", "subject": "nobody", "version": 1}]), 422, 42201),
        ("POST", "/subjects/x/versions", body(LONG, references=[{"name": "a"}]), 422, 422),
        ("POST", "/subjects/x/versions", body(LONG, id=7), 422, 42205),
        ("GET", "/subjects/x/versions/zero", None, 422, 42202),
        ("GET", "/subjects/x/versions/0", None, 422, 42202),
        ("PUT", "/config", {"compatibility": "SIDEWAYS"}, 422, 42203),
        ("PUT", "/mode", {"mode": "SIDEWAYS"}, 422, 42204),
        ("GET", "/config/nobody", None, 404, 40408),
        ("GET", "/mode/nobody", None, 404, 40409),
        ("POST", "/subjects/__GLOBAL/versions", body(LONG), 422, 42208),
        ("GET", "/nowhere", None, 404, 404),
    ],
)
def test_a_request_that_is_refused_says_why_with_confluents_code(
    registry: Registry, method: str, path: str, given: Any, status: int, code: int
) -> None:
    assert registry.ask(method, path, given) == (status, code)


def test_a_body_that_is_not_json_is_refused(registry: Registry) -> None:
    answer = httpx.post(f"{registry.url}/subjects/x/versions", content=b"{")

    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/vnd.schemaregistry.v1+json"
    assert answer.json() == {"error_code": 400, "message": "the body is not JSON"}


def test_what_no_record_can_hold_is_refused_at_once(registry: Registry, subject: str) -> None:
    given = body(LONG, metadata={"properties": {"notes": "x" * 1_200_000}})
    began = time.monotonic()

    assert registry.ask("POST", f"/subjects/{subject}/versions", given) == (422, 42209)
    assert registry.ask("PUT", f"/config/{subject}", {"defaultMetadata": given["metadata"]}) == (422, 42209)
    assert time.monotonic() - began < 20


def test_versions_are_checked_deleted_and_brought_back(registry: Registry, subject: str) -> None:
    first = register(registry, subject, LONG)
    second = register(registry, subject, TOTAL)
    check = f"/compatibility/subjects/{subject}/versions"

    assert registry.ask("POST", f"/subjects/{subject}/versions", body(TEXT)) == (409, 40901)
    assert registry.ask("POST", f"{check}/latest", body(TEXT))[1] == {"is_compatible": False}
    verbose = registry.ask("POST", f"{check}?verbose=true", body(TEXT))[1]
    assert not verbose["is_compatible"]
    assert "type_mismatch" in verbose["messages"][0]
    assert registry.ask("POST", f"{check}/1", body(TOTAL))[1] == {"is_compatible": True}
    assert registry.ask("POST", f"{check}/7", body(TOTAL)) == (404, 40402)
    assert registry.ask("DELETE", f"/subjects/{subject}/versions/1?permanent=true") == (404, 40407)
    assert registry.ask("DELETE", f"/subjects/{subject}/versions/1") == (200, 1)
    assert registry.ask("DELETE", f"/subjects/{subject}/versions/1") == (404, 40406)
    assert registry.ask("GET", f"/subjects/{subject}/versions")[1] == [2]
    assert registry.ask("GET", f"/subjects/{subject}/versions?deleted=true")[1] == [1, 2]
    assert registry.ask("GET", f"/subjects/{subject}/versions/1") == (404, 40402)
    assert registry.ask("GET", f"/subjects/{subject}/versions/1?deleted=true")[1]["id"] == first
    assert registry.ask("DELETE", f"/subjects/{subject}") == (200, [2])
    assert registry.ask("DELETE", f"/subjects/{subject}") == (404, 40404)
    assert subject not in registry.ask("GET", "/subjects")[1]
    assert subject in registry.ask("GET", "/subjects?deleted=true")[1]
    assert subject in registry.ask("GET", "/subjects?deletedOnly=true")[1]
    assert register(registry, subject, TOTAL) == second
    assert registry.ask("GET", f"/subjects/{subject}/versions")[1] == [3]
    assert registry.ask("DELETE", f"/subjects/{subject}?permanent=true") == (404, 40405)


def test_settings_and_modes_of_a_subject_come_and_go(registry: Registry, subject: str) -> None:
    register(registry, subject, LONG)

    assert registry.ask("PUT", f"/config/{subject}", {"compatibility": "full"})[0] == 200
    assert registry.ask("GET", f"/config/{subject}")[1] == {"compatibilityLevel": "FULL"}
    assert registry.ask("DELETE", f"/config/{subject}")[0] == 200
    assert registry.ask("GET", f"/config/{subject}?defaultToGlobal=true")[1] == {"compatibilityLevel": "BACKWARD"}
    assert registry.ask("PUT", f"/mode/{subject}", {"mode": "READONLY"})[1] == {"mode": "READONLY"}
    assert registry.ask("POST", f"/subjects/{subject}/versions", body(TOTAL)) == (422, 42205)
    assert registry.ask("DELETE", f"/mode/{subject}")[1] == {"mode": "READONLY"}
    assert registry.ask("GET", f"/mode/{subject}?defaultToGlobal=true")[1] == {"mode": "READWRITE"}
    assert registry.ask("GET", "/mode")[1] == {"mode": "READWRITE"}


def test_contexts_have_ids_of_their_own(registry: Registry, subject: str) -> None:
    context = f".{subject.removesuffix('-value')}"
    inside = f":{context}:{subject}"
    outside = register(registry, subject, TOTAL)

    assert register(registry, inside, LONG) == 1
    assert registry.ask("GET", f"/schemas/ids/1?subject={inside}")[1]["schema"] != ""
    assert context in registry.ask("GET", "/contexts")[1]
    assert inside in registry.ask("GET", f"/subjects?subjectPrefix=:{context}:")[1]
    assert registry.ask("GET", f"/subjects/{inside}/versions/1")[1]["id"] == 1
    assert outside != 1 or registry.ask("GET", "/schemas/ids/1")[1]["schema"] != ""
    assert registry.ask("DELETE", f"/contexts/:{context}:") == (422, 42211)


def test_references_metadata_and_formats(registry: Registry, subject: str) -> None:
    base = f"{subject}-base"
    register(registry, base, PROTO, "PROTOBUF")
    text = 'syntax = "proto3"; import "order.proto"; message Bill { shop.Order of = 1; }'
    references = [{"name": "order.proto", "subject": base, "version": 1}]
    kept = {"metadata": {"properties": {"owner": "ann"}}, "ruleSet": {"domainRules": [{"name": "r", "kind": "CONDITION"}]}}

    id = register(registry, subject, text, "PROTOBUF", references=references, **kept)

    found = registry.ask("GET", f"/subjects/{subject}/versions/1")[1]
    assert found["references"] == references
    assert found["schemaType"] == "PROTOBUF"
    assert {name: found[name] for name in kept} == kept
    assert registry.ask("GET", f"/subjects/{base}/versions/1/referencedby")[1] == [id]
    assert registry.ask("DELETE", f"/subjects/{base}/versions/1") == (422, 42206)
    serialized = registry.ask("GET", f"/schemas/ids/{id}?format=serialized")[1]["schema"]
    assert (
        registry.ask("POST", f"/subjects/{subject}", body(serialized, "PROTOBUF", references=references, **kept))[1]["id"] == id
    )
    assert registry.ask("GET", f"/subjects/{subject}/metadata?key=owner&value=ann")[1]["id"] == id
    assert registry.ask("GET", f"/subjects/{subject}/metadata?key=owner&value=bob") == (404, 40403)


def test_a_normalized_schema_is_found_however_it_was_written(registry: Registry, subject: str) -> None:
    one, other = '{"type":"object","title":"a"}', '{"title":"a","type":"object"}'
    registry.ask("POST", f"/subjects/{subject}/versions?normalize=true", body(one, "JSON"))

    assert registry.ask("POST", f"/subjects/{subject}", body(other, "JSON"))[0] == 404 or one > other
    assert registry.ask("POST", f"/subjects/{subject}?normalize=true", body(one, "JSON"))[0] == 200
    assert registry.ask("POST", f"/subjects/{subject}?normalize=true", body(other, "JSON"))[0] == 200


def test_who_may_not_is_refused_before_anything_happens(bootstrap: str, topic: str) -> None:
    async def only_reads(request: web.Request, act: str) -> None:
        if act == "write":
            raise web.HTTPForbidden(reason="no")

    with Registry(bootstrap, f"_schemas-{topic}", only_reads) as registry:
        assert registry.ask("POST", "/subjects/a/versions", body(LONG)) == (403, 403)
        assert registry.ask("DELETE", "/subjects/a") == (403, 403)
        assert registry.ask("POST", "/subjects/a", body(LONG)) == (404, 40401)
        assert registry.ask("GET", "/subjects") == (200, [])


def test_a_registry_that_starts_again_knows_everything(bootstrap: str, topic: str) -> None:
    name = f"_schemas-{topic}"
    with Registry(bootstrap, name) as first:
        first.ask("PUT", "/config", {"compatibility": "NONE"})
        register(first, "a", LONG)
        register(first, "a", TEXT)
        first.ask("DELETE", "/subjects/a/versions/1")

    with Registry(bootstrap, name) as second:
        assert second.ask("GET", "/subjects/a/versions")[1] == [2]
        assert second.ask("GET", "/config")[1] == {"compatibilityLevel": "NONE"}
        assert register(second, "b", TOTAL) == 3


def test_the_topic_is_what_confluents_registry_expects(bootstrap: str, topic: str) -> None:
    name = f"_schemas-{topic}"
    with Registry(bootstrap, name) as registry:
        register(registry, "a", LONG)

    with Admin(bootstrap) as admin, Consumer(name, bootstrap=bootstrap, keys="json") as consumer:
        assert admin.settings(name)["cleanup.policy"].value == "compact"
        keys = [record.key for record in consumer.to_end()]
    assert {"keytype": "SCHEMA", "subject": "a", "version": 1, "magic": 1} in keys


def test_a_topic_that_cannot_hold_schemas_is_refused(bootstrap: str, topic: str) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=2)

    async def start() -> None:
        async with SchemaLog(Connection(bootstrap=bootstrap, topic=topic)):
            pass

    with pytest.raises(TopicUnfit, match=r"2 partitions and cleanup\.policy=delete"):
        asyncio.run(start())


def test_a_record_that_is_no_schema_is_passed_over(bootstrap: str, topic: str) -> None:
    name = f"_schemas-{topic}"
    with Registry(bootstrap, name) as registry, Producer(bootstrap) as producer:
        register(registry, "a", LONG)
        producer.send(name, b"nonsense", key=b"strange").result(30)
        assert register(registry, "b", TEXT) == 2


def test_what_another_registry_wrote_a_moment_ago_is_found(bootstrap: str, topic: str) -> None:
    name = f"_schemas-{topic}"
    with Registry(bootstrap, name) as one, Registry(bootstrap, name) as other:
        for number in range(5):
            id = register(one, f"s{number}", f'{{"type":"fixed","name":"F","size":{number + 1}}}')
            assert other.ask("GET", f"/schemas/ids/{id}")[0] == 200


def many(registries: list[str], threads: int, each: int) -> list[tuple[int, str]]:
    """Register different schemas from many threads at different registries; what was answered: ids with their schemas."""

    def work(thread: int) -> list[tuple[int, str]]:
        answers = []
        with httpx.Client(timeout=60) as client:
            for number in range(each):
                text = json.dumps({"type": "fixed", "name": "F", "size": thread * 1000 + number + 1})
                url = registries[(thread + number) % len(registries)]
                try:
                    answer = client.post(f"{url}/subjects/s-{thread}-{number}/versions", json={"schema": text})
                except httpx.TransportError:
                    continue  # of the one that was killed
                if answer.status_code == 200:
                    answers.append((answer.json()["id"], json.dumps(json.loads(text)["size"])))
        return answers

    with ThreadPoolExecutor(threads) as pool:
        return [answer for answers in pool.map(work, range(threads)) for answer in answers]


def test_registries_that_race_never_give_one_id_twice(bootstrap: str, topic: str) -> None:
    name = f"_schemas-{topic}"
    with Registry(bootstrap, name) as one, Registry(bootstrap, name) as other:
        answers = many([one.url, other.url], threads=6, each=4)

        assert len(answers) == 24
        assert max(Counter(id for id, _ in answers).values()) == 1
        for registry in (one, other):
            for id, size in answers:
                found = registry.ask("GET", f"/schemas/ids/{id}")[1]
                assert json.dumps(json.loads(found["schema"])["size"]) == size


def test_a_registry_that_is_killed_in_the_middle_leaves_no_id_for_two(bootstrap: str, topic: str) -> None:
    name = f"_schemas-{topic}"
    command = [sys.executable, "-m", "tests.support.registry", bootstrap, name]
    with Registry(bootstrap, name) as one, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        other = process.stdout.readline().strip()
        with ThreadPoolExecutor(1) as pool:
            racing = pool.submit(many, [one.url, other], 4, 6)
            register(one, "while-racing", TEXT)
            process.kill()
            answers = racing.result(120)
        register(one, "afterwards", LONG)

        assert len(answers) >= 12  # at least all that were asked of the one that lives
        assert max(Counter(id for id, _ in answers).values()) == 1
        for id, size in answers:
            assert json.dumps(json.loads(one.ask("GET", f"/schemas/ids/{id}")[1]["schema"])["size"]) == size


def test_registering_goes_on_when_the_broker_was_away(tmp_path: Path) -> None:
    with ExitStack() as stack:
        with Broker(data=tmp_path) as broker:
            port = int(broker.bootstrap.rpartition(":")[2])
            registry = stack.enter_context(Registry(broker.bootstrap, "_schemas"))
            assert register(registry, "a", LONG) == 1
        stack.enter_context(Broker(data=tmp_path, port=port))
        assert register(registry, "b", TEXT) == 2
        assert registry.ask("GET", "/subjects")[1] == ["a", "b"]
