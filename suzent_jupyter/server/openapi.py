"""``/openapi.json``, made from the route table."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from pydantic.json_schema import models_json_schema

from ..protocol.rest import ErrorBody
from .routes import ROUTES, Route

_REF = "#/components/schemas/{model}"


@lru_cache(maxsize=1)
def document(version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of every route. ``x-authority`` is the least authority that may call it."""
    models = {model for route in ROUTES for model in (route.body, route.answer) if model is not None} | {ErrorBody}
    _, schemas = models_json_schema(
        [(model, "validation") for model in sorted(models, key=lambda model: model.__name__)], ref_template=_REF
    )
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        # A WebSocket handshake is a GET; OpenAPI has no word for what follows.
        method = "get" if route.method == "WS" else route.method.lower()
        summary = (
            f"WebSocket: the {route.endpoint} protocol"
            if isinstance(route.endpoint, str)
            else (route.endpoint.__doc__ or "").strip().splitlines()[0]
        )
        operation: dict[str, Any] = {
            "summary": summary,
            "operationId": f"{method}_{re.sub(r'[^a-z]+', '_', route.path.lower()).strip('_')}",
            "x-authority": route.authority.name.lower(),
            "x-action": route.action,
            "security": [] if route.authority == 0 else [{"token": []}, {"header": []}, {"basic": []}],
            "parameters": [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in re.findall(r"\{(\w+)\}", route.path)
            ],
            "responses": {"default": _answer("ErrorBody", "Refused or failed")},
        }
        if route.method == "WS":
            operation["responses"]["101"] = {"description": "Switching protocols"}
        else:
            operation["responses"][str(route.status)] = _good(route)
        if route.body is not None:
            schema = {"$ref": _REF.format(model=route.body.__name__)}
            operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
        elif route.streamed:
            operation["requestBody"] = {"content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}}
        paths.setdefault(route.path, {})[method] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Suzent gateway", "version": version},
        "paths": paths,
        "components": {
            "schemas": schemas.get("$defs", {}),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "X-Suzent-Token"},
                "basic": {"type": "http", "scheme": "basic", "description": "The password is the token."},
            },
        },
    }


def _good(route: Route) -> dict[str, Any]:
    if route.page:
        return {"description": "A page", "content": {"text/html": {"schema": {"type": "string"}}}}
    if route.media == "application/json":
        return _answer(route.answer.__name__ if route.answer else None, "Done")
    streamed = route.media == "text/event-stream"
    description = "AG-UI events, up to RUN_FINISHED or RUN_ERROR" if streamed else "A file, of any media type"
    return {"description": description, "content": {route.media: {"schema": {"type": "string"}}}}


def _answer(model: str | None, description: str) -> dict[str, Any]:
    schema = {"$ref": _REF.format(model=model)} if model else {}
    return {"description": description, "content": {"application/json": {"schema": schema}}}
