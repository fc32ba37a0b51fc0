"""What somebody means by a name, among the gateway's records."""

from __future__ import annotations

from typing import Any

from .errors import NodeAmbiguous, NodeNotFound
from .plain import one_line

Record = dict[str, Any]


def find_node(items: list[Record], name: str) -> Record:
    """Return the connected node of this id, name (case does not matter) or unique id prefix.

    Raises
    ------
    NodeNotFound, NodeAmbiguous
        None, or several: those are listed by id.
    """
    found = one_of(items, name, key="node_id", what="node")
    if found is None:
        raise NodeNotFound(f"Node '{one_line(name, 64)}' not found among the connected nodes.", code="node_not_found")
    return found


def one_of(items: list[Record], name: str, *, key: str, what: str, label: str = "display_name") -> Record | None:
    """Return the one record that ``name`` means: by id, address, name (case does not matter) or unique id prefix.

    Parameters
    ----------
    key, label : str
        The fields that hold id and name. Where records have a ``base_url``, that is the address.
    what : str
        What the records are, in an error.

    Raises
    ------
    NodeAmbiguous
        There are several; they are listed by id.
    """
    wanted = name.strip()
    for found in (
        [item for item in items if item.get(key) == wanted],
        [item for item in items if wanted and str(item.get("base_url", "")).rstrip("/") == wanted.rstrip("/")],
        [item for item in items if str(item.get(label, "")).casefold() == wanted.casefold()],
        [item for item in items if wanted and str(item.get(key, "")).startswith(wanted)],
    ):
        if len(found) == 1:
            return found[0]
        if len(found) > 1:
            ids = [str(item.get(key)) for item in found]
            raise NodeAmbiguous(
                f"{len(found)} {what}s are called '{one_line(wanted, 64)}': {', '.join(ids)}.",
                hint="Use the id, or more of its first characters.",
                details={"ids": ids},
            )
    return None
