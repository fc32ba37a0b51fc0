"""A node as an object: ``gateway["MyPhone"].camera.snap(format="png")``."""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from html import escape
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

from ..protocol.text import clean_lines
from .errors import NodeNotFound, UnknownCommand
from .frames import accepted, parameter_types, parameters
from .plain import one_line
from .results import Result

if TYPE_CHECKING:
    from .gateway import Gateway

Record = dict[str, Any]

_OPTIONS = ("timeout_", "idempotency_key_", "on_progress_")
_ANNOTATIONS: dict[str, Any] = {
    "string": str,
    "str": str,
    "path": str,
    "integer": int,
    "int": int,
    "number": float,
    "float": float,
    "boolean": bool,
    "bool": bool,
    "array": list,
    "list": list,
    "object": dict,
    "dict": dict,
    "bytes": bytes,
}


class Node:
    """A connected node as it was when looked up.

    Its commands are attributes, dots included: ``node.camera.snap(format="png")``. Where a name is no identifier or
    collides with a method, ``node["my-command"](…)`` reaches it.

    Attributes
    ----------
    id, name, platform, status : str
        Identity, display name (cleaned), operating system, ``connected`` or ``paused``.
    info : dict
        Everything the gateway says about it.
    """

    def __init__(self, gateway: Gateway, info: Record) -> None:
        self._gateway = gateway
        self.info = info
        self.id: str = info["node_id"]
        self.name = one_line(info.get("display_name"), 64)
        self.platform = one_line(info.get("platform"), 64)
        self.status = one_line(info.get("status"), 64)
        self._capabilities: dict[str, Record] = {
            str(capability["name"]): capability for capability in info.get("capabilities") or () if "name" in capability
        }

    @property
    def commands(self) -> list[str]:
        """The names of the commands that may be called."""
        return list(self._capabilities)

    def invoke(self, command: str, params: dict[str, Any] | None = None, **options: Any) -> Result:
        """Call a command by its name; options as in :meth:`.gateway.Gateway.invoke`."""
        __tracebackhide__ = True
        try:
            result = self._gateway.invoke(self.id, command, params, **options)
        except NodeNotFound as error:
            raise self._gone(error) from None
        result.node = self.name
        return result

    async def ainvoke(self, command: str, params: dict[str, Any] | None = None, **options: Any) -> Result:
        """Call a command without blocking the event loop."""
        __tracebackhide__ = True
        try:
            result = await self._gateway.ainvoke(self.id, command, params, **options)
        except NodeNotFound as error:
            raise self._gone(error) from None
        result.node = self.name
        return result

    def __getitem__(self, command: str) -> Command:
        if command not in self._capabilities:
            raise self._unknown(command)
        return Command(self, command)

    def __getattr__(self, name: str) -> Command:
        if name.startswith("_") or "_capabilities" not in self.__dict__:
            raise AttributeError(name)
        return _child(self, name)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *_children(self, "")]

    def _ipython_key_completions_(self) -> list[str]:
        return self.commands

    def __iter__(self) -> Iterator[Command]:
        return (Command(self, name) for name in self._capabilities)

    def _gone(self, error: NodeNotFound) -> NodeNotFound:
        return NodeNotFound(f"{self.name} ({self.id}) is not connected now.", hint=error.hint)

    def _unknown(self, command: str) -> UnknownCommand:
        known = ", ".join(one_line(name, 128) for name in self._capabilities) or "none"
        return UnknownCommand(f"{self.name} has no command '{one_line(command, 128)}'. It offers: {known}.")

    def __repr__(self) -> str:
        return (
            f"<Node {self.name} ({self.id}), {self.status}: {one_line(', '.join(self._capabilities)) or 'no commands'}>"
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return describe(self.info)


class Command:
    """A command of a node, or the common first part of several; call it with the command's parameters by name.

    ``timeout_``, ``idempotency_key_`` and ``on_progress_`` (with the underscore, so that they can't collide with a
    parameter of the device) are options of the call.
    """

    def __init__(self, node: Node, path: str) -> None:
        self._node = node
        self._path = path
        self._schema = node._capabilities.get(path)
        self.__name__ = path.rpartition(".")[2]
        self.__qualname__ = one_line(f"{node.name}.{path}")
        self.__module__ = __name__
        if self._schema is not None:
            self.__doc__ = _document(node, self._schema)
            self.__signature__ = _signature(self._schema)
        else:
            self.__doc__ = f"Commands of {node.name} under {path}: {', '.join(_children(node, path + '.'))}."

    def __call__(self, /, *unnamed: Any, **params: Any) -> Result:
        __tracebackhide__ = True
        options = self._options(unnamed, params)
        return self._node.invoke(self._path, params, **options)

    async def acall(self, /, *unnamed: Any, **params: Any) -> Result:
        """Call it without blocking the event loop."""
        __tracebackhide__ = True
        options = self._options(unnamed, params)
        return await self._node.ainvoke(self._path, params, **options)

    def _options(self, unnamed: tuple[Any, ...], params: dict[str, Any]) -> dict[str, Any]:
        if self._schema is None:
            raise self._node._unknown(self._path)
        if unnamed:
            raise TypeError(f"{one_line(self._path, 128)} takes its parameters by name: {parameters(self._schema)}.")
        return {name[:-1]: params.pop(name) for name in _OPTIONS if name in params}

    def __getattr__(self, name: str) -> Command:
        if name.startswith("_") or "_path" not in self.__dict__:
            raise AttributeError(name)
        return _child(self._node, f"{self._path}.{name}")

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *_children(self._node, self._path + ".")]

    def __repr__(self) -> str:
        if self._schema is None:
            names = ", ".join(f"{self._path}.{name}" for name in _children(self._node, self._path + "."))
            return f"<commands of {self._node.name}: {names}>"
        return f"<{self._path}({parameters(self._schema)}) of {self._node.name}>"


def _child(node: Node, path: str) -> Command:
    if path in node._capabilities or any(name.startswith(path + ".") for name in node._capabilities):
        return Command(node, path)
    error = node._unknown(path)
    raise AttributeError(str(error))


def _children(node: Node, prefix: str) -> list[str]:
    names = {name[len(prefix) :].partition(".")[0] for name in node._capabilities if name.startswith(prefix)}
    return sorted(name for name in names if name.isidentifier() and not keyword.iskeyword(name))


def _signature(capability: Record) -> Signature:
    schema = capability.get("input_schema") or {}
    properties = schema.get("properties") or {}
    required = set(schema.get("required") or ())
    fields = []
    for name, kind in parameter_types(capability).items():
        if not name.isidentifier() or keyword.iskeyword(name) or name in _OPTIONS:
            continue
        default = Parameter.empty if name in required else properties.get(name, {}).get("default")
        fields.append(
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=default,
                annotation=_ANNOTATIONS.get(kind.casefold(), Parameter.empty),
            )
        )
    fields += [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in _OPTIONS]
    if not schema or schema.get("additionalProperties", True) is not False:
        fields.append(Parameter("params", Parameter.VAR_KEYWORD))
    return Signature(fields, return_annotation=Result)


def _document(node: Node, capability: Record) -> str:
    lines = [clean_lines(str(capability.get("description") or ""), 2000) or f"The command {capability['name']}.", ""]
    rules = (capability.get("input_schema") or {}).get("properties") or {}
    types = parameter_types(capability)
    if types:
        lines += ["Parameters", "----------"]
        for name, kind in types.items():
            rule = rules.get(name) or {}
            takes = accepted(kind, rule)
            lines.append(one_line(f"{name} : {takes}" if takes else name))
            about = one_line(rule.get("description"), 500)
            if about:
                lines.append(f"    {about}")
        lines.append("")
    lines += [
        "timeout_ : float, optional",
        "    Seconds the call may take; 30 by default.",
        "",
        f"A command of {node.name}.",
    ]
    return "\n".join(lines)


def description(info: Record) -> str:
    """Return what a node is and what it can do, as text."""
    from .plain import table

    heading, about, rows, columns = _described(info)
    commands = table(rows, columns, width=80) if rows else "It offers no commands."
    return "\n".join([heading, *([about] if about else []), "", commands])


def describe(info: Record) -> dict[str, Any]:
    """Return the MIME bundle of a node: the same as text and as escaped HTML."""
    from .show import html_block, html_table

    heading, about, rows, columns = _described(info)
    html = f"<p><b>{escape(heading)}</b></p>" + (f"<p>{escape(about)}</p>" if about else "")
    html += html_table(rows, columns) if rows else "<p>It offers no commands.</p>"
    return {"text/plain": description(info), "text/html": html_block(html)}


def _described(info: Record) -> tuple[str, str, list[Record], list[str]]:
    facts = [one_line(info.get(key)) for key in ("platform", "status", "node_id", "remote")]
    rows = [
        {
            "command": capability.get("name"),
            "parameters": parameters(capability),
            "description": capability.get("description"),
            "state": state,
        }
        for key, state in (("capabilities", ""), ("pending_capabilities", "waits for approval"))
        for capability in info.get(key) or ()
    ]
    columns = ["command", "parameters", "description"] + (["state"] if any(row["state"] for row in rows) else [])
    heading = f"{one_line(info.get('display_name'), 64)} ({', '.join(fact for fact in facts if fact)})"
    return heading, one_line(info.get("description"), 2000), rows, columns
