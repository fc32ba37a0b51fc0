"""Foreign Markdown made safe to emit as ``text/markdown``.

JupyterLab renders the Markdown output of a cell that was run as trusted: HTML inside it executes, links go anywhere,
formulas are typeset. So the text is not filtered but written anew, from the parts known to be harmless:

- what could open a tag, a link, a formula or an entity becomes a character reference, which no Markdown reader takes
  for syntax (a backslash escape would not do: readers differ in what a backslash before them means);
- links are recognised here and written by us, to http, https and mailto only, with a percent-encoded target; images
  become links, so that nothing is fetched;
- code stays as it was, in fences and spans of ours that every reader ends where we do.
"""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import quote, urlsplit

from ..protocol.text import clean_lines

_FENCE = re.compile(r"^[ ]*(?P<fence>`{3,}|~{3,})[ ]*(?P<info>[^`]*)$")
_LIST_ITEM = re.compile(r"^ {0,3}([-+*]|\d{1,9}[.)])( |$)")
# Languages a fence may name. Others are left unnamed: front ends draw diagrams for some (mermaid, vega, math, geojson).
_LANGUAGES = re.compile(
    r"bash|bat|c|clojure|cmake|console|cpp|cs|csharp|css|csv|dart|diff|dockerfile|elixir|erlang|fortran|go"
    r"|graphql|groovy|haskell|ini|ipython|java|javascript|js|json|json5|jsonc|julia|kotlin|less|lua"
    r"|makefile|matlab|nginx|nim|objc|ocaml|pascal|perl|php|powershell|ps1|py|pycon|python|python3|r|rb"
    r"|regex|rs|ruby|rust|scala|scss|sh|shell|sql|swift|tcl|text|toml|ts|tsx|txt|typescript|vb|yaml|yml|zig"
    r"|zsh"
)
_SCHEMES = ("http", "https", "mailto")
_REFERENCES = {"<": "&lt;", "&": "&amp;", "[": "&#91;", "]": "&#93;", "`": "&#96;", "$": "&#36;"}
_SPECIAL = re.compile(r"[<&\[\]`$\\]|ftp(?=://)|www(?=\.)|://", re.IGNORECASE)
_BARE_URL = re.compile(r"https?://[^\s<>\"'`\\\[\]{}|^]+", re.IGNORECASE)
_ANGLE_URL = re.compile(r"<((?:https?://|mailto:)[^\s<>]+)>", re.IGNORECASE)
_TICKS = re.compile(r"`+")
_ENTITY = re.compile(r"&(#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});?")


def safe_markdown(text: str) -> str:
    """Return ``text`` as Markdown without HTML, images, formulas, and links but to http(s) and mailto.

    The result of a growing text is right at every length: an open fence is closed, half a link is text.

    Parameters
    ----------
    text : str
        Markdown of an agent or a device.
    """
    lines = clean_lines(text).expandtabs(4).split("\n")
    blocks: list[str] = []
    prose: list[str] = []
    in_list = False
    index = 0

    def flush() -> None:
        if prose:
            blocks.append(_prose("\n".join(prose)))
            prose.clear()

    while index < len(lines):
        line = lines[index]
        fence = _FENCE.match(line)
        if fence:
            flush()
            code, index = _fenced(lines, index + 1, fence["fence"], len(line) - len(line.lstrip()))
            blocks.append(_code_block(code, fence["info"]))
            continue
        blank = not line.strip()
        if line.startswith("    ") and not in_list and not blank and (not prose or not prose[-1].strip()):
            flush()
            code, index = _indented(lines, index)
            blocks.append(_code_block(code, ""))
            continue
        if _LIST_ITEM.match(line):
            in_list = True
        elif not blank and not line.startswith(" "):
            in_list = False
        prose.append(line)
        index += 1
    flush()
    return "\n".join(blocks)


def _fenced(lines: list[str], start: int, fence: str, indent: int) -> tuple[list[str], int]:
    """Return the lines of a fenced block that opened before ``start``, and the index after its end."""
    end = re.compile(rf"^[ ]*{re.escape(fence[0])}{{{len(fence)},}}[ ]*$")
    code: list[str] = []
    for index in range(start, len(lines)):
        if end.match(lines[index]):
            return code, index + 1
        line = lines[index]
        code.append(line[min(indent, len(line) - len(line.lstrip(" "))) :])
    return code, len(lines)


def _indented(lines: list[str], start: int) -> tuple[list[str], int]:
    index = start
    while index < len(lines) and (lines[index].startswith("    ") or not lines[index].strip()):
        index += 1
    while not lines[index - 1].strip():
        index -= 1
    return [line[4:] for line in lines[start:index]], index


def _code_block(code: list[str], info: str) -> str:
    """Write a fenced block: at the margin, between blank lines, with a fence longer than any run inside."""
    runs = [len(run) for line in code for run in _TICKS.findall(line)]
    fence = "`" * max(3, max(runs, default=0) + 1)
    language = (info.split() or [""])[0].casefold()
    return "\n".join(["", fence + (language if _LANGUAGES.fullmatch(language) else ""), *code, fence, ""])


def _prose(text: str) -> str:
    """Rewrite paragraphs: nothing inline reaches over a blank line, and nothing here over a table's bar in code."""
    return "\n\n".join(_inline(part) for part in text.split("\n\n"))


def _inline(text: str, links: bool = True) -> str:
    out: list[str] = []
    index = start = 0
    pairs = _pairs(text) if links else {}

    def put(piece: str, after: int) -> int:
        nonlocal start
        out.append(_text(text[start:index]))
        out.append(piece)
        start = after
        return after

    while index < len(text):
        char = text[index]
        if char == "`" and links:
            run = _TICKS.match(text, index)
            assert run is not None
            span = _code_span(text, run)
            # An unmatched run is skipped whole: its ticks are not openers of shorter spans.
            index = put(*span) if span else run.end()
        elif char == "<" and links and (found := _ANGLE_URL.match(text, index)):
            index = put(_link(found[1], found[1]), found.end())
        elif links and (char == "[" or text.startswith("![", index)) and (found_link := _read_link(text, index, pairs)):
            index = put(*found_link)
        elif (
            links and char in "hH" and not text[index - 1 : index].isalnum() and (found := _BARE_URL.match(text, index))
        ):
            url = _trim(found[0])
            index = put(_link(url, url), index + len(url))
        else:
            index += 1
    out.append(_text(text[start:]))
    return "".join(out)


def _code_span(text: str, opener: re.Match[str]) -> tuple[str, int] | None:
    """Return a code span of ours and where it ends; None if there is none.

    Always one tick, and neither line breaks nor bars inside: a reader that takes a ``$`` or a ``|`` for more than we do
    still pairs our ticks as we do.
    """
    for closer in _TICKS.finditer(text, opener.end()):
        if len(closer[0]) == len(opener[0]):
            code = " ".join(text[opener.end() : closer.start()].split())
            if not code:
                return None
            if "`" in code or "|" in code:
                return _text(code, literal=True), closer.end()
            return f"`{code}`", closer.end()
    return None


def _read_link(text: str, index: int, pairs: dict[int, int]) -> tuple[str, int] | None:
    """Read ``[text](target "title")`` or ``![text](target)`` at ``index``; return it as ours, and its end."""
    image = text[index] == "!"
    opening = index + image
    closing = pairs.get(opening)
    if closing is None or text[closing + 1 : closing + 2] != "(":
        return None
    end = pairs.get(closing + 1)
    if end is None:
        return None
    inside = text[closing + 2 : end].strip()
    target = inside[1:].partition(">")[0] if inside.startswith("<") else (inside.split() or [""])[0]
    label = text[opening + 1 : closing]
    return _link(target, f"image: {label}" if image else label), end + 1


def _pairs(text: str) -> dict[int, int]:
    """Return where each ``[`` and ``(`` is closed, in one pass: a megabyte of brackets costs no more than text."""
    pairs: dict[int, int] = {}
    open_square: list[int] = []
    open_round: list[int] = []
    for index, char in enumerate(text):
        if char == "[":
            open_square.append(index)
        elif char == "(":
            open_round.append(index)
        elif char == "]" and open_square:
            pairs[open_square.pop()] = index
        elif char == ")" and open_round:
            pairs[open_round.pop()] = index
    return pairs


def _link(target: str, label: str) -> str:
    """Write a link, or only its text where the target is not one we let through."""
    url = safe_url(unescape(target))
    shown = _inline(" ".join(label.split()), links=False).strip()
    if url is None:
        return shown
    return f"[{shown or _text(url)}]({url.replace('&', '&amp;')})"


def safe_url(url: str) -> str | None:
    """Return an http, https or mailto URL with everything else percent-encoded; None for any other."""
    cleaned = re.sub(r"[\x00-\x20\x7f-\xa0]", "", clean_lines(url)).replace("\n", "")
    scheme = cleaned.partition(":")[0].casefold()
    if scheme not in _SCHEMES or ":" not in cleaned:
        return None
    try:
        parts = urlsplit(cleaned)
        if scheme != "mailto" and not parts.hostname:
            return None
    except ValueError:
        return None
    return quote(cleaned, safe=":/?#@!&'+,;=%-._~")


def _trim(url: str) -> str:
    """Leave punctuation after a bare URL outside of it."""
    url = url.rstrip(".,;:!?*_~")
    while url.endswith(")") and url.count(")") > url.count("("):
        url = url[:-1].rstrip(".,;:!?*_~")
    return url


def _text(text: str, literal: bool = False) -> str:
    """Return text with all that could be more than text as character references.

    References in it are resolved first: they would bring a backslash or dollar past us to the formula renderer.
    """
    plain = _SPECIAL.sub(_escape, _ENTITY.sub(lambda found: clean_lines(unescape(found[0])).replace("\n", " "), text))
    return re.sub(r"[*_~|]", lambda found: f"&#{ord(found[0])};", plain) if literal else plain


def _escape(found: re.Match[str]) -> str:
    piece = found[0]
    if piece in _REFERENCES:
        return _REFERENCES[piece]
    if piece == "\\":
        # The joiner keeps it from being a command where formulas are looked for in the finished page.
        return "&#92;\u200c"
    if piece == "://":
        return "&#58;//"
    return piece + "\u200c"  # ftp and www, which some readers link by themselves
