"""The compact prompt for recorded answers: the cards turned around, by kind.

The cards of an episode say how often each worker was right on questions of a few kinds, and show some of
these questions. A sheet has a row for each kind: a letter, and the workers from the highest rate to the
lowest with their rates in tenths. Then a row for each part of the question: the letters of the kinds from the
most similar to the least, with the similarity in tenths:

    vote 3 join 4
    A 2:7 0:6 1:3
    B 1:9 2:4 0:1
    C 0:5 1:5 2:2
    1 B:9 C:1 A:0
    2 needs 1 C:4 A:0 B:0

The similarity is that by which planners find the kind of a question in production. So the tiny model reads no
question, and kinds that are in no training episode are found like the others. Prices are left out: they do
not tell which worker is right.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from podium.workers.rates import by_similarity, measured_kinds
from podium_train.environments import Episode, RecordedAnswers
from podium_train.environments.recorded import parts_of

LETTERS = "ABC"
"""The letters of the kinds; cards show three kinds at most."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Numbers from the highest value to the lowest, with the values in tenths, from 0 to 9."""

    order: tuple[int, ...]
    tenths: tuple[int, ...]

    @classmethod
    def by(cls, values: Sequence[float]) -> "Ranked":
        """Rank the numbers of some values."""
        order = sorted(range(len(values)), key=lambda number: -values[number])
        return cls(tuple(order), tuple(min(9, int(10 * values[number])) for number in order))

    def text(self, names: Sequence[str]) -> str:
        """Return the names in this order, with the tenths."""
        pairs = zip(self.order, self.tenths, strict=True)
        return " ".join(f"{names[number]}:{tenth}" for number, tenth in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """What the tiny model reads of an episode."""

    rates: tuple[Ranked, ...]
    """The workers for each kind, by their places in the pool."""
    likeness: tuple[Ranked, ...]
    """The kinds for each part."""
    needs: tuple[int | None, ...]
    """For each part the number (from 0) of the part whose answer it needs."""
    vote: int
    """The place of the worker that votes."""
    is_bundle: bool

    @classmethod
    def of(cls, environment: RecordedAnswers, episode: Episode) -> "Sheet":
        """Return the sheet of an episode."""
        models = environment.models_of(episode)
        cards = episode.cards[:models]
        kinds = measured_kinds(cards)
        parts = parts_of(environment.query_of(episode))
        similar = [dict(by_similarity(part.text, kinds)) for part in parts]
        rates = [[float(card.measured[number].rate) for card in cards] for number in range(len(kinds))]
        return cls(
            rates=tuple(map(Ranked.by, rates)),
            likeness=tuple(Ranked.by([found[kind] for kind in kinds]) for found in similar),
            needs=tuple(part.needs for part in parts),
            vote=models,
            is_bundle=environment.settings.parts is not None,
        )

    @property
    def text(self) -> str:
        """The text of the sheet."""
        places = [str(place) for place in range(self.vote)]
        rows = [f"vote {self.vote}" + (f" join {self.vote + 1}" if self.is_bundle else "")]
        rows += [f"{letter} {rates.text(places)}" for letter, rates in zip(LETTERS, self.rates, strict=False)]
        for number, (likeness, needs) in enumerate(zip(self.likeness, self.needs, strict=True), 1):
            needed = "" if needs is None else f"needs {needs + 1} "
            rows.append(f"{number} {needed}{likeness.text(LETTERS)}")
        return "\n".join(rows)
