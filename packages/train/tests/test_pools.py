"""Drawing pools, and the cards that a conductor reads."""

from random import Random

import pytest

from podium.errors import ConfigError
from podium.workers import Card, Price
from podium_train import PoolDraw, disguised

NAMES = ["a", "b", "c", "d"]


def test_a_pool_has_distinct_workers_in_any_order_and_size() -> None:
    random = Random(1)
    drawn = {PoolDraw(sizes=(2, 3)).draw(NAMES, random) for _ in range(2000)}
    assert {len(pool) for pool in drawn} == {2, 3}
    assert all(len(set(pool)) == len(pool) for pool in drawn)
    assert len(drawn) == 4 * 3 + 4 * 3 * 2


@pytest.mark.parametrize(
    ("sizes", "told"), [((), "at least one size"), ((0,), "1 or more"), ((5,), "from 4")]
)
def test_sizes_that_cannot_be_drawn(sizes: tuple[int, ...], told: str) -> None:
    """They are refused, before or when the pool is drawn."""
    with pytest.raises(ConfigError, match=told):
        PoolDraw(sizes=sizes).draw(NAMES, Random(1))


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
