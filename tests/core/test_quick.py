"""Quick records: the same as frozen dataclasses, but for what it costs to make them."""

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace

import pytest

from podium.quick import quick


@dataclass(frozen=True, slots=True)
class Plain:
    """As the standard library makes it."""

    one: int
    two: str = "2"
    three: list[int] = field(default_factory=list, compare=False)
    kind: str = field(default="k", kw_only=True)


@quick
@dataclass(frozen=True, slots=True)
class Quick:
    """The same, made quickly; one field has a name that its maker uses."""

    one: int
    two: str = "2"
    three: list[int] = field(default_factory=list, compare=False)
    kind: str = field(default="k", kw_only=True)


@quick
@dataclass(frozen=True, slots=True)
class Checked:
    """One that looks at what it was given."""

    text: str

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("empty")
        object.__setattr__(self, "text", self.text.upper())


class Looser(Quick):
    """A class of one's own, whose slots are others."""


def test_it_takes_what_the_dataclass_took() -> None:
    """The parameters are the same, by place and by name."""
    assert list(inspect.signature(Quick).parameters) == list(inspect.signature(Plain).parameters)
    made = Quick(1, "b", kind="c")
    assert [getattr(made, each.name) for each in fields(made)] == [1, "b", [], "c"]
    with pytest.raises(TypeError):
        Quick()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Quick(1, "b", [], "c")  # type: ignore[misc]


def test_each_has_a_default_of_its_own() -> None:
    """A factory is called each time."""
    assert Quick(1).three is not Quick(1).three


@pytest.mark.parametrize("made", [Quick(1), replace(Quick(1), two="3"), copy.copy(Quick(1)), Looser(1)])
def test_it_is_frozen_however_it_was_made(made: Quick) -> None:
    """Nobody can write to it, and it is of its own class."""
    assert type(made) in (Quick, Looser)
    with pytest.raises(FrozenInstanceError):
        made.one = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del made.one


def test_it_compares_prints_and_travels_as_before() -> None:
    """Equality, hash, words and pickles are the dataclass's."""
    made = Quick(1, kind="c")
    assert (made == Quick(1, kind="c"), made == Quick(2, kind="c")) == (True, False)
    assert hash(made) == hash(Quick(1, kind="c"))
    assert repr(made) == repr(Plain(1, kind="c")).replace("Plain", "Quick")
    assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301 - our own


def test_what_is_checked_afterwards_is_checked() -> None:
    """Its own check is made, once the fields are set."""
    assert Checked("a").text == "A"
    with pytest.raises(ValueError, match="empty"):
        Checked("")


def test_a_class_of_ones_own_is_made_as_well() -> None:
    """A subclass has other slots, and is made as the standard library does."""
    made = Looser(1, kind="c")
    assert (made.one, made.three, type(made)) == (1, [], Looser)
