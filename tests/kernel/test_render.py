"""Foreign Markdown: whatever goes in, two readers of Markdown see neither HTML nor images nor foreign links."""

from __future__ import annotations

import time
from html.parser import HTMLParser

import mistune
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from suzent_jupyter.kernel.render import safe_markdown, safe_url

HARMLESS = set(
    "p h1 h2 h3 h4 h5 h6 em strong del code pre a ul ol li blockquote hr br table thead tbody tr th td s".split()
)
READERS = {
    "markdown-it": MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render,
    "mistune": mistune.create_markdown(escape=False, plugins=["table", "strikethrough", "url", "math", "footnotes"]),
}


class Page(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _value in attrs)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.text += data


def pages(text: str) -> list[Page]:
    written = safe_markdown(text)
    return [Page(str(reader(written))) for reader in READERS.values()]


def hold(text: str) -> list[Page]:
    """Hold every reader's page to what may be on it."""
    read = pages(text)
    for page in read:
        assert page.tags <= HARMLESS, (page.tags, safe_markdown(text))
        assert page.attributes <= {"href", "class", "style", "start", "title"}, (page.attributes, safe_markdown(text))
        for link in page.links:
            assert link.lower().startswith(("http://", "https://", "mailto:")), (link, safe_markdown(text))
    return read


ATTACKS = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "<svg onload=alert(1)>",
    "a <!-- <img src=x onerror=alert(1)> -->",
    "![x](http://evil/pixel.png)",
    "[![x](http://evil/p.png)](javascript:alert(1))",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](java&#x73;cript:alert(1))",
    "[x](javascript&colon;alert(1))",
    "[x](<javascript:alert(1)>)",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:x)",
    "[x](//evil/a) [y](/login) [z](#a)",
    "[x][y]\n\n[y]: javascript:alert(1)",
    "[y]\n\n[y]: <javascript:alert(1)> 'title'",
    "![y]\n\n[y]: http://evil/p.png",
    "<javascript:alert(1)>",
    '<http://a/"onmouseover=alert(1)>',
    '[a](http://x/"onmouseover="alert(1))',
    "[a](http://x 'title\" onmouseover=\"alert(1)')",
    "[[a](javascript:1)](http://x)",
    "[a](http://x/(y)(z)",
    "http://x/<img src=x onerror=alert(1)>",
    "&lt;img src=x onerror=alert(1)&gt;",
    "&#60;img src=x&#62; &#92;href &#36;x&#36;",
    "\\<img src=x onerror=alert(1)\\>",
    "`<img src=x onerror=alert(1)>",
    "\\`<img src=x onerror=alert(1)>`",
    "``a` <img src=x onerror=alert(1)> `b``",
    "| `a | <img src=x onerror=alert(1)>` |\n|---|---|\n| x | y |",
    "a | b\n--|--\n`x | <img src=x onerror=alert(1)> | y`",
    "```\n</code></pre><img src=x onerror=alert(1)>\n```",
    "````\n```\n<img src=x>\n````",
    "```\n<img src=x>",
    "~~~\n```\n<img src=x>\n~~~\n<img src=y>",
    "- a\n  ```\n  <img src=x>\n  ```\n<img src=y>",
    "> ```\n> <img src=x>\n> ```\n<img src=y>",
    "$$\n```\nx $$\n<img src=x onerror=alert(1)>\n```",
    "`a$` and ``$<img src=x onerror=alert(1)>``",
    "`\\begin{x}` and `\\end{x}<img src=x onerror=alert(1)>`",
    "\\begin{x}<img src=x onerror=alert(1)>\\end{x}",
    "\\href{javascript:alert(1)}{x} \\(\\href{javascript:alert(1)}{x}\\)",
    "$\\href{javascript:alert(1)}{x}$",
    "@@0@@ $x$ @@1@@<img src=x>",
    "    <img src=x onerror=alert(1)>\n\ntext",
    "<details open ontoggle=alert(1)>",
    "a&#10;&#10;```&#10;<img src=x onerror=alert(1)>",
    "[x](http://a&#10;&#10;<img src=x>)",
    "[a&#10;&#10;<img src=x>](http://x)",
    "\x00<\x00img src=x onerror=alert(1)>",
    "<\u200bimg src=x onerror=alert(1)>",
    "<img\r\nsrc=x\r\nonerror=alert(1)>",
    "\u2028<img src=x onerror=alert(1)>",
    "[^1]\n\n[^1]: <img src=x>",
    "www.evil.example ftp://evil.example/x",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks(attack: str) -> None:
    hold(attack)
    for wrapped in (f"# {attack}", f"> {attack}", f"- {attack}", f"text\n{attack}\ntext", f"**{attack}**"):
        hold(wrapped)


@given(
    st.lists(
        st.sampled_from(
            [*ATTACKS, "\n", "\n\n", "    ", "`", "``", "```", "$", "|", "- ", "> ", "[", "](", ")", "<", "\\"]
        ),
        max_size=6,
    )
)
@settings(max_examples=300, deadline=None)
def test_attacks_combined(parts: list[str]) -> None:
    hold("".join(parts))


@given(st.text(st.sampled_from("<>[]()!`~$\\&#;|-+* \n\tahrefjsimg:/\"'="), max_size=80))
@settings(max_examples=500, deadline=None)
def test_any_text(text: str) -> None:
    hold(text)


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_no_raw_tag_outside_code(text: str) -> None:
    hold(text + "<img src=x onerror=alert(1)>" + text)


def test_growing_text_is_safe_at_every_length() -> None:
    text = "Hi [x](http://a/b) `c<d>`\n\n```html\n<img src=x>\n```\n\n| a | `b|<img src=y>` |\n|--|--|\n![p](http://e)"
    for end in range(len(text) + 1):
        hold(text[:end])


def test_what_is_harmless_stays() -> None:
    page = hold(
        "# Title\n\n**bold** and *soft* `code`.\n\n1. one\n2. two\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    )[0]
    assert {"h1", "strong", "em", "code", "ol", "li", "blockquote", "table"} <= page.tags


def test_links_are_kept_and_images_become_links() -> None:
    for page in hold('[docs](https://a.b/c?d=1&e=2 "t") ![cat](https://a.b/cat.png) https://x.y/z. <mailto:me@x.y>'):
        assert page.links == ["https://a.b/c?d=1&e=2", "https://a.b/cat.png", "https://x.y/z", "mailto:me@x.y"]
        assert "image: cat" in page.text


def test_code_is_shown_as_it_was() -> None:
    code = "if a < b and c > d & e:\n    print('$x', \"[y](z)\", `w`)"
    for page in hold(f"Look:\n\n```python\n{code}\n```\n\nand `a<b>&c`."):
        assert code in page.text
        assert "a<b>&c" in page.text
    for page in hold("A list:\n\n1. do\n   ```sh\n   echo <x>\n   ```\n2. done"):
        assert "echo <x>" in page.text
    for page in hold("Text\n\n    x < y\n\nmore"):
        assert "x < y" in page.text


def test_text_reads_as_it_was() -> None:
    for page in hold("1 < 2 & 3 > 2, [not a link], C:\\temp costs $5, &lt;b&gt;"):
        assert "1 < 2 & 3 > 2, [not a link], C:\\\u200ctemp costs $5, <b>" in page.text


def test_no_diagram_language_survives() -> None:
    assert "mermaid" not in safe_markdown("```mermaid\ngraph TD\n```")
    assert "```python" in safe_markdown("``` Python title=x\n1\n```")


@pytest.mark.parametrize(
    "url", ["javascript:1", "data:x", "file:///etc", "http:", "//x", "x", "", "http://[bad", "mailto"]
)
def test_other_urls_are_refused(url: str) -> None:
    assert safe_url(url) is None


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "(" * 100_000, "`" * 100_001, "[a](" * 30_000, "` `` " * 20_000, "<" * 100_000]
)
def test_hostile_length_takes_no_time(text: str) -> None:
    began = time.perf_counter()
    safe_markdown(text)
    assert time.perf_counter() - began < 5
