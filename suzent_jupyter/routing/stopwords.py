"""Words that say nothing about which node is meant."""

from __future__ import annotations

_ENGLISH = """
a an and any are as at be been but by can could did do does for from had has have he her here his how i if in into is
it its me my no not of on or our out over please shall she should so some than that the their them then there these
they this those to up us via was we were what when where which who will with would you your
"""
_GERMAN = """
aber als am an auch auf aus bei bitte da das dass dein deine dem den der des dich die dir doch du durch ein eine einem
einen einer eines er es euch euer für haben hat hier ich ihm ihn ihr im ist ja kann kannst kein keine können mal mein
meine meinem meinen meiner mich mir mit nach nicht noch nur oder ohne schon sein sich sie sind so soll um und uns
unser
unter vom von vor wann war was welche welchem welchen welcher welches wenn wer werden wie wir wird wo zu zum zur über
"""
# Two characters each, since that is what Han and Kana are cut into.
_HAN = """
一下 一个 一些 一台 一張 一张 一種 一种 为我 什麼 他们 他們 使得 个人 以及 但是 你们 你們 使我 可以 各位 哪个 哪個
哪里 哪些 因为 因為
在这 在這 如何 如果 它们 对于 帮我 幫我 幫忙 帮忙 我们 我們 我想 想要 或者 是否 有没 没有 現在 现在 給我 给我 能不
能否 自己 要求 请你 请帮 請你 請幫
还是 這个 這個 這些 這台 这个 这些 这台 这里 那个 那個 那些 怎么 怎樣 怎样
"""
_HAN_SINGLE = "我你您他她它们們在是有和与與或到给給把被请請就都也很这這那哪个個些让讓从從对對为為以要想能会會"
_KANA = """
あの ある いて いる いま うか おい から くだ けど こと この これ さい して しま した しい すか する せん そこ その
それ たい たく だい ださ
だけ です てい てく てる では でも とき どこ どの どれ ない なに なの にて ねが のは のを はい ます ませ まし また
まで もの よう より られ
れる わた わたし
"""
_KANA_SINGLE = (
    "あいうえおかがきくけげこごさざしすせそただちつてでとどなに"
    "ぬねのはばびへべほぼまみむめもやゆよらりるれろわをんっゃゅょ"
)

STOP_WORDS = frozenset(
    word
    for words in (_ENGLISH, _GERMAN, _HAN, " ".join(_HAN_SINGLE), _KANA, " ".join(_KANA_SINGLE))
    for word in words.split()
)

HAN_PARTICLES = "的了吗嗎呢吧嘛么麼"
"""Chinese particles, at which a run of Han is cut before it is taken in pairs."""
