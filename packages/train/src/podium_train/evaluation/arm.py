"""Arms: ways to plan an episode."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from podium.plan_text import Spelling, write_plan
from podium.planners import Planner, PlanText
from podium.types import Message, Plan
from podium_train.environments import Episode
from podium_train.prompts import PromptStyle, messages, plan_request

Complete = Callable[[Sequence[Message]], Awaitable[str]]
"""Returns the text of a conductor model for the messages of an episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanArm:
    """A way to plan an episode."""

    name: str
    """The name in tables."""
    text: Callable[[Episode, int], Awaitable[str]]
    """Returns the plan text for an episode; the number counts the samples of the episode from 0."""
    samples: int = 1
    """Number of texts for each episode; the score of an episode is their mean."""
    is_achievable: bool = True
    """Whether it knows nothing of the right answers to what it is asked."""
    spelling: Spelling = "rows"
    """The spelling of its plans."""


def conductor_arm(name: str, complete: Complete, style: PromptStyle, *, samples: int = 1) -> PlanArm:
    """Return the arm of a conductor model.

    Report a sampled arm beside a greedy one: greedy texts alone hide how sure the model is.

    Args:
        name: the name in tables.
        complete: returns the text of the model, without the prefill of `style`.
        style: how the model is asked.
        samples: number of texts for each episode; 1 for a greedy model.
    """

    async def text(episode: Episode, _sample: int) -> str:
        return style.prefill + await complete(messages(episode, style))

    return PlanArm(name=name, text=text, samples=samples, spelling=style.spelling)


def planner_arm(name: str, planner: Planner, *, max_steps: int, samples: int = 1) -> PlanArm:
    """Return the arm of a planner of Podium, such as a chat model on an OpenAI-compatible server.

    Args:
        name: the name in tables.
        planner: the planner. Enter it before, so that its connections stay open.
        max_steps: maximum number of steps that it is asked for.
        samples: number of texts for each episode; 1 for a planner that always writes the same.
    """

    async def text(episode: Episode, _sample: int) -> str:
        return await planned_text(planner, episode, max_steps=max_steps)

    return PlanArm(name=name, text=text, samples=samples, spelling=planner.spelling)


def plan_arm(name: str, choose: Callable[[Episode], Plan], *, is_achievable: bool = True) -> PlanArm:
    """Return the arm of a function that chooses a plan.

    Args:
        name: the name in tables.
        choose: returns the plan for an episode.
        is_achievable: whether it knows nothing of the right answers to what it is asked.
    """

    async def text(episode: Episode, _sample: int) -> str:
        return write_plan(choose(episode), "rows")

    return PlanArm(name=name, text=text, is_achievable=is_achievable)


async def planned_text(planner: Planner, episode: Episode, *, max_steps: int) -> str:
    """Return the text that a planner writes for an episode, valid or not.

    Raises:
        PodiumError: the planner gave no text.
    """
    async with aclosing(planner.plan(plan_request(episode, max_steps=max_steps))) as pieces:
        found = [piece.text async for piece in pieces if isinstance(piece, PlanText)]
    return found[-1]
