"""Names within the limits of DNS, whatever people call their machines."""

from __future__ import annotations

import pytest

from suzent_jupyter.discovery.names import LABEL_BYTES, TXT_BYTES, cut, instance_labels, stable_tag, txt_value

FAMILY = "👨‍👩‍👧‍👦"


@pytest.mark.parametrize(
    "name",
    [
        "Lab PC",
        "ada.local",
        "x" * 200,
        "🧪" * 200,
        "é" * 200,
        "e\u0301" * 200,
        "語" * 63,
        FAMILY * 20,
        ".",
        "👋🏽" * 40,
    ],
)
def test_labels_fit_dns_and_end_after_a_whole_character(name: str) -> None:
    labels = list(instance_labels(name, "1234abcd"))
    assert len(set(labels)) == 3
    for label in labels:
        assert 0 < len(label.encode()) <= LABEL_BYTES
        assert "." not in label
        assert "\ufffd" not in label
    assert labels[1].endswith(" 1234") and labels[2].endswith(" 1234abcd")


def test_a_short_name_is_the_label() -> None:
    assert next(instance_labels("Ada's Lab 🧪", "x" * 8)) == "Ada's Lab 🧪"
    assert next(instance_labels("ada.local", "x" * 8)) == "ada-local"
    assert next(instance_labels("\x1b[31m\u202e", "x" * 8)) == "Suzent"


def test_joined_characters_are_not_torn() -> None:
    most = len(FAMILY.encode())
    assert cut("ab" + FAMILY, most) == "ab"
    assert cut("ab" + FAMILY, most + 2) == "ab" + FAMILY
    assert cut("cafe\u0301", 5) == "caf"
    assert cut("👋🏽", 4) == "👋"  # nothing else is left of it


def test_a_txt_entry_fits() -> None:
    value = txt_value("display_name", "🧪" * 100)
    assert len(f"display_name={value}".encode()) <= TXT_BYTES
    assert value == "🧪" * 60
    assert txt_value("display_name", "Lab.PC") == "Lab.PC"


def test_the_tag_stays_and_tells_places_apart() -> None:
    assert stable_tag("/a") == stable_tag("/a") != stable_tag("/b")
    assert len(stable_tag("/a")) == 8
