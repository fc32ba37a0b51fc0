"""MIME bundles of results: raster images, sound, tables, JSON and text, each by its content.

Foreign markup never gets out of here: no SVG, no JavaScript, no Markdown and no HTML but what is built below from
escaped text. A front end that can't show the type falls back to ``text/plain``.
"""

from __future__ import annotations

import base64
from html import escape
from typing import Any

from ..protocol.text import clean_lines
from .errors import KernelError
from .plain import human_bytes, one_line
from .results import JSON_BYTES, MEDIA_BYTES, TEXT_CHARS, Binary, Result, pretty, summarised
from .sniff import IMAGES, shown_as

Bundle = dict[str, Any]


def result_bundle(result: Result) -> Bundle:
    """Return how a result is shown."""
    if not result.success:
        return {"text/plain": f"{one_line(result.command)} failed on {one_line(result.node)}: {result.error}"}
    data = result._value()
    if isinstance(data, Binary):
        return binary_bundle(data)
    if isinstance(data, str):
        return {"text/plain": clean_lines(data, TEXT_CHARS)}
    if data is None:
        took = f"{result.seconds * 1000:.0f} ms"
        return {"text/plain": f"{one_line(result.command)} on {one_line(result.node)}: done in {took}."}
    from .frames import is_table
    from .turns.remote_file import RemoteFile

    if is_table(data):
        return table_bundle(result.frame)
    bundle: Bundle = {"text/plain": clean_lines(pretty(data), TEXT_CHARS)}
    binaries = result.binaries
    if len(binaries) == 1:
        media = binary_bundle(binaries[0])
        said = media.pop("text/plain")
        if isinstance(binaries[0], RemoteFile) and not media:
            bundle["text/plain"] += f"\n{said}"
        if media:
            return {**media, **bundle}  # a photo with its facts: the photo is shown, the facts are the fallback
    if isinstance(data, dict | list) and len(result.raw) <= JSON_BYTES:
        bundle["application/json"] = _clean_json(summarised(data))
    return bundle


def binary_bundle(part: Binary) -> Bundle:
    """Return how binary data is shown: by the type its first bytes prove, else as a summary."""
    from .turns.remote_file import RemoteFile

    if isinstance(part, RemoteFile):
        if not part.is_shown:
            return {"text/plain": f"{part!r} (.save() writes it)"}
        try:
            part.data  # noqa: B018 - fetched here, where a failure can be shown
        except KernelError as error:
            return {"text/plain": f"{part!r}: {error.line}"}
    kind = shown_as(part.media_type, part.data)
    if kind is None and part.media_type.startswith("text/plain"):
        return {"text/plain": clean_lines(part.data.decode("utf-8", "replace"), TEXT_CHARS)}
    bundle: Bundle = {"text/plain": repr(part)}
    if kind is None:
        return bundle
    if len(part.data) > MEDIA_BYTES:
        bundle["text/plain"] += f" (more than {human_bytes(MEDIA_BYTES)}: not shown, .save() writes it)"
        return bundle
    content = base64.b64encode(part.data).decode("ascii")
    if kind in IMAGES:
        bundle[kind] = content
    else:
        bundle["text/html"] = f'<audio controls src="data:{escape(kind)};base64,{content}"></audio>'
    return bundle


def table_bundle(frame: Any) -> Bundle:
    """Return a frame of foreign text as text and as escaped HTML in which no formula is typeset."""
    import pandas as pd

    shown = frame if len(frame.columns) <= 100 else frame.iloc[:, :100]
    with pd.option_context("display.html.use_mathjax", False, "display.max_colwidth", 200):
        html = shown.to_html(max_rows=60, max_cols=30, escape=True, border=0, notebook=False)
        text = shown.to_string(max_rows=30, max_colwidth=60, show_dimensions=len(frame) > 30)
    return {"text/plain": clean_lines(text), "text/html": html_block(clean_lines(html))}


def html_block(html: str) -> str:
    """Wrap HTML that was built here so that MathJax leaves it alone."""
    return f'<div class="tex2jax_ignore mathjax_ignore">{html}</div>'


def code_text(sentence: str, code: str, more: list[str]) -> str:
    """Return a sentence, a code in large (``""`` for none) and what to do, as lines of text."""
    spaced = ["", f"    {' '.join(code)}    ({code})", ""] if code else []
    return "\n".join([sentence, *spaced, *more])


def code_bundle(sentence: str, code: str, more: list[str]) -> Bundle:
    """Return the same for a cell."""
    large = (
        '<p style="font:600 2em/1.4 monospace;letter-spacing:.2em;user-select:all">' + escape(code) + "</p>"
        if code
        else ""
    )
    html = f"<p>{escape(sentence)}</p>{large}<p>{'<br>'.join(escape(line) for line in more)}</p>"
    return {"text/plain": code_text(sentence, code, more), "text/html": html_block(html)}


def html_table(rows: list[dict[str, Any]], columns: list[str]) -> str:
    """Return a small HTML table of cleaned, escaped text."""
    head = "".join(f'<th style="text-align:left">{escape(column)}</th>' for column in columns)
    body = "".join(
        "<tr>"
        + "".join(f'<td style="text-align:left">{escape(one_line(row.get(column), 400))}</td>' for column in columns)
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _clean_json(value: Any) -> Any:
    if isinstance(value, str):
        return clean_lines(value)
    if isinstance(value, dict):
        return {clean_lines(key): _clean_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean_json(item) for item in value]
    return value
