"""What a reward service is asked, and what it returns."""

from dataclasses import dataclass
from typing import Literal

from podium_train.environments import Episode

WhyUnknown = Literal["", "outcome", "budget"]
"""Why a text has no reward: the environment does not know the outcome, or the money limit does not allow the
plan; empty for a text with a reward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRequest:
    """A conductor's text, to be rewarded."""

    episode: Episode
    """The question and the pool that the conductor was shown."""
    text: str
    """What the conductor wrote."""
    earlier: str | None = None
    """The text of the first round, if `text` is of the second. The conductor was shown its answer."""
    sample: int = 0
    """Number of the execution of the plan. Equal plans with equal numbers are carried out once; another
    number gives another execution, for environments whose outcomes vary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The reward of one text, with the facts that logs and guards need."""

    value: float | None
    """The reward, as in `podium_train.Reward`. Do not train on a text whose reward is `None`."""
    why_unknown: WhyUnknown = ""
    """Why there is no reward."""
    problem: str = ""
    """The code of the error in the text; empty for a valid plan."""
    answer: str = ""
    """The answer of the plan; empty if there is none or it is unknown. Only with an answer is there a second
    round."""
    second_round: bool = False
    """Whether the text is of a second round."""
    before: float | None = None
    """The reward of the first round, for a text of a second round; `None` if unknown."""
    kept: bool = False
    """Whether a text of a second round keeps the answer of the first."""
    workers: tuple[int, ...] = ()
    """The number of the worker of each step; empty without a plan."""
    cost: float | None = 0.0
    """What the calls of the plan cost, whether now or when its outcome was cached; `None` if unknown."""
    calls: int = 0
    """Number of worker calls."""
    tokens: int = 0
    """Tokens that the workers read and wrote; 0 if unknown."""
    cached: bool = False
    """Whether nothing was executed for this text, because the outcome of its plan was known."""
