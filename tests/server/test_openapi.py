"""The OpenAPI document is made from the route table, and is a sound one."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
from support.authority import EXPECTED
from support.gateways import ThreadedGateway
from support.grants import grant
from support.running import sync

from suzent_jupyter import __version__
from suzent_jupyter.server.routes import ROUTES


def references(value: Any) -> set[str]:
    return set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(value)))


@sync
async def test_the_document(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        document = (await http.get("/openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    assert document["info"] == {"title": "Suzent gateway", "version": __version__}
    told = {
        (method.upper(), path): operation["x-authority"]
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    assert told == {("GET" if method == "WS" else method, path): least for (method, path), least in EXPECTED.items()}
    ids = [operation["operationId"] for operations in document["paths"].values() for operation in operations.values()]
    assert len(set(ids)) == len(ids)
    for reference in references(document):
        assert reference.startswith("#/components/schemas/")
        assert reference.rsplit("/", 1)[1] in document["components"]["schemas"], reference
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation["summary"]
            assert operation["responses"]["default"]["content"]["application/json"]["schema"]["$ref"]
            assert [each["name"] for each in operation["parameters"]] == re.findall(r"\{(\w+)\}", path)
            for scheme in operation["security"]:
                assert set(scheme) <= set(document["components"]["securitySchemes"])
            assert (operation["security"] == []) == (operation["x-authority"] == "none")


def test_every_segment_of_a_path_is_matched_alone() -> None:
    for route in ROUTES:
        for name in re.findall(r"\{(\w+)\}", route.path):
            assert f"(?P<{name}>[^/]+)" in route.pattern
        concrete = re.sub(r"\{\w+\}", "x", route.path)
        assert re.fullmatch(route.pattern, concrete)
        if "{" in route.path:
            assert re.fullmatch(route.pattern, re.sub(r"\{\w+\}", "a/b", route.path)) is None


@sync
async def test_every_answer_is_what_the_document_says(gateway: ThreadedGateway) -> None:
    """Each GET route's answer is accepted by its own model, field by field."""
    async with httpx.AsyncClient(base_url=gateway.url, headers=gateway.headers) as http:
        for route in ROUTES:
            if route.method != "GET" or route.answer is None or "{" in route.path:
                continue
            body = (await http.get(route.path)).json()
            assert set(body) == set(route.answer.model_fields), route.path
            route.answer.model_validate(body)


@sync
async def test_streams_files_and_what_is_only_accepted(gateway: ThreadedGateway) -> None:
    _, headers = await grant(gateway)

    async def good(http: httpx.AsyncClient, method: str, path: str, **options: Any) -> tuple[int, str]:
        answer = await http.request(method, path, **options)
        return answer.status_code, answer.headers["content-type"].partition(";")[0]

    async with gateway.http() as http:
        paths = (await http.get("/openapi.json")).json()["paths"]
        message = {"message_id": "m1", "content": "x"}
        answers = {
            ("post", "/chat"): await good(http, "POST", "/chat", json={"message": "x"}),
            ("post", "/channels/suzent/inbound"): await good(
                http, "POST", "/channels/suzent/inbound", json={"content": "x"}, headers=headers
            ),
            ("post", "/channels/suzent/inbox"): await good(
                http, "POST", "/channels/suzent/inbox", json=message, headers=headers
            ),
        }
    for (method, path), (status, media) in answers.items():
        responses = paths[path][method]["responses"]
        assert set(responses) == {"default", str(status)} and set(responses[str(status)]["content"]) == {media}, path
    assert set(paths["/nodes/peers/{id}/trigger"]["post"]["responses"]["200"]["content"]) == {"text/event-stream"}
    for path in ("/nodes/peer-files/{file}", "/nodes/peers/{id}/files/{file}"):
        assert set(paths[path]["get"]["responses"]["200"]["content"]) == {"application/octet-stream"}
