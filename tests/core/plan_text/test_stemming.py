"""The words by which two texts are compared."""

import pytest

from podium.plan_text.literals import words


@pytest.mark.parametrize(
    ("text", "stems"),
    [
        ("Discounts, and a discount!", ["discount", "discount"]),
        ("running runs", ["run", "run"]),
        ("the company's companies", ["compan", "compan"]),
        ("They’ll say it", []),
        ("STRASSE Straße", ["strass", "strass"]),
        ("価格 of ﬁsh", ["価", "格", "fish"]),
        ("bus gas class", ["bus", "gas", "class"]),
    ],
)
def test_words_lose_their_endings(text: str, stems: list[str]) -> None:
    """Case, endings and words that say nothing do not count; characters without spaces are a word each."""
    assert words(text) == stems
