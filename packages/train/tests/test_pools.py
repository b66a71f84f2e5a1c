"""Drawing pools, and the cards that a conductor reads."""

from random import Random

from podium.workers import Card, Price
from podium_train.environments.episodes import disguised

NAMES = ["a", "b", "c", "d"]


def test_disguised_cards_tell_neither_name_nor_exact_price() -> None:
    """Pseudonyms differ between episodes; prices stay near the real ones."""
    cards = [Card(name=name, description=name, price=Price(input=3, output=15)) for name in NAMES]
    first, second = disguised(cards, Random(1)), disguised(cards, Random(2))
    assert len({card.name for card in first}) == 4
    assert {card.name for card in first} != {card.name for card in second}
    assert {card.description for card in first} == {"A language model."}
    outputs = [card.price.output for card in (*first, *second) if card.price]
    assert len(set(outputs)) > 2
    assert all(10.4 <= output <= 19.6 for output in outputs)
