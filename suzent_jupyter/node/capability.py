"""What a device can do: a function with a name, a description and declared parameters."""

from __future__ import annotations

import fnmatch
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from ..protocol.capabilities import CapabilitySchema
from ..protocol.limits import Limits
from ..protocol.text import clean_text
from .docstring import read_docstring
from .signature import Signature

Function = TypeVar("Function", bound=Callable[..., Any])

_MARK = "__suzent_capability__"
_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Capability:
    """One command of a device.

    Attributes
    ----------
    name : str
        Such as ``camera.snap``.
    function : callable
        What runs; an ``async`` function as a task, any other in a thread.
    description : str
        One sentence for people and models.
    signature : Signature
        Its parameters.
    requires_permission : bool, optional
        Whether somebody is asked before it runs; None leaves that to the gateway, which goes by its name.
    """

    name: str
    function: Callable[..., Any]
    description: str
    signature: Signature
    requires_permission: bool | None = None

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        name: str | None = None,
        description: str | None = None,
        requires_permission: bool | None = None,
    ) -> Capability:
        """Make a capability of a function.

        Raises
        ------
        TypeError
            When the function can't be one: a parameter's type has no JSON form, or it is an async generator.
        ValueError
            When the name is empty, unprintable or longer than 128 characters.
        """
        if not callable(function):
            raise TypeError(f"{function!r} is not a function.")
        if inspect.isasyncgenfunction(function):
            raise TypeError(
                f"{function.__qualname__} is an async generator; return one value and call progress() on the way."
            )
        name = getattr(function, "__name__", type(function).__name__) if name is None else name
        if not name or clean_text(name, _LIMITS.capability_name_chars) != name:
            raise ValueError(f"{name!r} is not a name for a capability; give one like 'camera.snap'.")
        summary, documented = read_docstring(inspect.getdoc(function))
        text = clean_text(summary if description is None else description, _LIMITS.description_chars)
        return cls(name, function, text, Signature(function, documented), requires_permission)

    @property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function."""
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(
            getattr(self.function, "__call__", None)  # noqa: B004 - an object whose call is async
        )

    def declaration(self) -> CapabilitySchema:
        """Return how it stands in the connect frame."""
        return CapabilitySchema(
            name=self.name,
            description=self.description,
            params_schema=self.signature.params_schema,
            input_schema=self.signature.input_schema,
            requires_permission=self.requires_permission,
        )


#: What ``@capability`` has declared in this process; the newest of a name counts, as in a notebook cell run again.
registry: dict[str, Capability] = {}


@overload
def capability(function: Function, /) -> Function: ...
@overload
def capability(
    name: str | None = None, /, *, description: str | None = None, requires_permission: bool | None = None
) -> Callable[[Function], Function]: ...
def capability(name: Any = None, /, *, description: str | None = None, requires_permission: bool | None = None) -> Any:
    """Declare a function as a capability; it stays an ordinary function.

    Used bare (``@capability``) the function's own name is the command (``camera_snap`` stays ``camera_snap``);
    ``@capability("camera.snap", description=…)`` names it. Types and defaults of the parameters come from the
    signature, descriptions from the docstring (NumPy, Google or Sphinx style).

    ``requires_permission=True`` has somebody asked before each call, ``False`` nobody. By default the gateway asks, in
    agents' turns and for other people, before commands whose names say that they are private or can't be undone.

    A method is declared but not collected: pass the bound method to the host, ``NodeHost(capabilities=[camera.snap])``.

    Raises
    ------
    TypeError, ValueError
        As :meth:`Capability.of`.
    """
    if callable(name):
        return _declare(name, None, description, requires_permission)
    return lambda function: _declare(function, name, description, requires_permission)


def _declare(function: Any, name: str | None, description: str | None, requires_permission: bool | None) -> Any:
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    if owner and not owner.endswith("<locals>"):
        setattr(
            function, _MARK, (name, description, requires_permission)
        )  # a method: its first parameter is known once it is bound
        return function
    made = Capability.of(function, name, description, requires_permission)
    registry[made.name] = made
    setattr(function, _MARK, (made.name, description, requires_permission))
    return function


def collect(items: Iterable[Any] | None) -> dict[str, Capability]:
    """Return name → capability for what a host was given.

    Parameters
    ----------
    items : iterable, optional
        Functions, capabilities, and names or patterns (``camera.*``) of declared ones; None for all declared ones.

    Raises
    ------
    ValueError
        When a name or pattern fits nothing.
    """
    if items is None:
        return dict(registry)
    found: dict[str, Capability] = {}
    for item in [items] if isinstance(items, str) else items:
        made = matching(registry, item) if isinstance(item, str) else [_of(item)]
        found |= {each.name: each for each in made}
    return found


def matching(known: dict[str, Capability], pattern: str) -> list[Capability]:
    """Return the capabilities a name or pattern fits; ``ValueError`` where there are none."""
    found = [each for name, each in known.items() if fnmatch.fnmatchcase(name, pattern)]
    if not found:
        names = ", ".join(known) or "none"
        raise ValueError(f"There is no capability {pattern!r}; known: {names}.")
    return found


def _of(item: Any) -> Capability:
    if isinstance(item, Capability):
        return item
    return Capability.of(item, *getattr(item, _MARK, ()))
