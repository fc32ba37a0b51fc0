"""Texts of nodes that speak to whoever chooses, rather than of the node: they are neither shown nor searched."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace

from .documents import NodeText
from .steps import Steps
from .tokens import TERM_CHARS

# What a person would say of a machine goes through; orders to a model, and the words of the answer it gives, don't.
_SPEAKS = re.compile(
    r"""
    \b(?:ignor\w*|disregard\w*|forget|overrid\w*|bypass\w*|vergiss|missachte\w*|oublie[zr]?|ignore[zr])\b
        .{0,60}?\b(?:instruct\w*|prompts?|rules?|messages?|above|previous|prior|everything|anweisung\w*|befehle?
        |regeln?|vorgaben?|consignes?|instrucc\w*|istruzion\w*|instru[cç][oõ]es)\b
  | \b(?:always|only|must|should|please|just|you|to|and|now)\s+(?:choose|select|pick|prefer|route\s+to)\s+
        (?:me|us|this|node|it)\b
  | \b(?:choose|select|pick|prefer)\s+(?:me|us|this\s+(?:node|device|one|machine))\b
  | \b(?:wähl\w*|waehl\w*|nimm|nehmt)\s+(?:\w+\s+)?(?:mich|diesen\s+knoten|dieses\s+gerät)\b
  | \b(?:choisi\w*|sélectionne\w*|prenez|prends)[\s-]+(?:moi|ce\s+n(?:œ|oe)ud)\b
  | \b(?:el[ií]ge(?:me|\s+este)|escóge(?:me)?|selecci[oó]name|sceglimi|escolh\w+[\s-]me|выбер\w+\s+меня)\b
  | \bигнорир\w+.{0,40}(?:инструкц|указани|правил)
  | \bnode_?\s?id\b | \bsystem[\s_-]*(?:prompt|message|instruction)s? | \bsystemprompt | \bsystem-?anweisung
  | \bconfidence\b\W{0,4}(?:(?:of|is|to|score|must|be)\W+){0,3}(?:[01](?:\.\d+)?\b|\.\d+|\d+\s*%|high\b|max)
  | \bas\s+an?\s+(?:ai|language\s+model|assistant)\b | \byou\s+are\s+(?:now|an?\s+(?:ai|assistant|router|language))\b
  | <\|?/?(?:im_start|im_end|system|assistant|endoftext) | \[/?inst\]
  | (?:忽略|无视|無視|忽视|忽視|忘记|忘記|不要理会|不要理會)
        .{0,20}?(?:指令|指示|说明|說明|规则|規則|提示|要求|内容|內容)
  | (?:请|請|必须|必須|务必|務必|总是|總是|只能?|一定要?)?
        (?:选择|選擇|选|選|挑)(?:我|本节点|本節點|这个节点|這個節點|此节点|此節點)
  | (?:系统|系統)(?:提示|指令) | 置信度 | 信頼度 | 确信度
  | (?:指示|命令|指令|ルール|プロンプト|説明)\S{0,6}?(?:を|は)?(?:無視|むし|忘れ) | システム(?:プロンプト|メッセージ)
  | (?:私|わたし|僕|このノード|これ|当ノード)を\S{0,6}?(?:選|えら)
  | (?:지시|명령|규칙|프롬프트)\S{0,4}\s*(?:모두\s*)?무시 | (?:나를|저를|이\s*노드를)\s*(?:선택|골라)
        | 시스템\s*프롬프트
    """,
    re.VERBOSE | re.DOTALL,
)
# One of these is in whatever of the above is ASCII: most texts need no further look.
_HINTS = (
    "ignor", "disregard", "forget", "overrid", "bypass", "vergiss", "missacht", "oubli", "choose", "select", "pick",
    "prefer", "route", "waehl", "nimm", "nehmt", "chois", "prend", "prenez", "elige", "elegi", "sceglimi", "escolh",
    "nodeid", "node_id", "node id", "node-id", "node.id", "system", "confidence", "as a", "you are", "<", "inst]",
)  # fmt: skip
# Letters that look alike are a known way round (Unicode TS 39); these are the ones that plain words are written with.
_ALIKE = str.maketrans("аеорсухіјѕԁһ", "aeopcyxijsdh")
_HIDDEN = re.compile("[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff]")
_CAMEL = re.compile("(?<=[a-z])(?=[A-Z])")
_SPACES = re.compile(r"[\s_*`'\"“”.,;:!-]+")


_PART = 384
_LONGEST = 192
"""Characters in which whatever is looked for fits: by so much do the parts of a long text overlap."""
_EDGE = re.compile(r"\W")


def _is_in(text: str) -> Steps[bool]:
    # A search of thousands of characters takes tens of milliseconds.
    for start in range(0, len(text), _PART):
        end = start + _PART + _LONGEST
        if end < len(text):
            # In the middle of a word there would seem to be the end of one.
            edge = _EDGE.search(text, end, end + TERM_CHARS)
            end = edge.start() if edge else end
        if _SPEAKS.search(text, start, end):
            return True
        if end >= len(text):
            break
        yield
    return False


def speaks(text: str) -> Steps[bool]:
    """Whether a text speaks to the chooser: orders to a model or a person that chooses, words of a model's answer."""
    if len(text) < 2:
        return False
    if not text.isascii():
        text = _HIDDEN.sub("", unicodedata.normalize("NFKC", text))
    plain = text.casefold()
    if text.isascii() and not any(hint in plain for hint in _HINTS):
        return False
    if (yield from _is_in(plain)):
        return True
    yield
    spaced = _SPACES.sub(" ", _CAMEL.sub(" ", text)).casefold()
    if spaced != plain and (yield from _is_in(spaced)):
        return True
    yield
    alike = spaced.translate(_ALIKE)
    return alike != spaced and (yield from _is_in(alike))


def honest(text: NodeText) -> Steps[tuple[NodeText, list[str]]]:
    """Return a node's texts without those that speak to the chooser, and what kinds of text these were."""
    withheld: list[str] = []

    def kept(kind: str, value: str) -> Steps[str]:
        yield
        if not (yield from speaks(value)):
            return value
        if kind not in withheld:
            withheld.append(kind)
        return ""

    name = yield from kept("name", text.name)
    description = yield from kept("description", text.description)
    platform = yield from kept("platform", text.platform)
    tags = list[str]()
    for tag in text.tags:
        tags.append((yield from kept("tags", tag)))
    tags = [tag for tag in tags if tag]
    capabilities = list[tuple[str, str]]()
    for label, about in text.capabilities:
        if (yield from kept("capability names", label)):
            capabilities.append((label, (yield from kept("capability descriptions", about))))
    # What says nothing piece by piece may say it all in a row.
    if not withheld and (yield from speaks(" ".join((name, description, platform, *tags))[:4000])):
        return replace(text, name="", description="", platform="", tags=()), ["name, description and tags"]
    if not withheld:
        return text, withheld
    left = replace(text, name=name, description=description, platform=platform, tags=tuple(tags))
    return replace(left, capabilities=tuple(capabilities)), withheld
