"""The messages of an episode by the code that plans in production, their fingerprint, and the prefill.

The prefill is text with which a chat template begins each text of a conductor. Trainers, vLLM, llama.cpp's
server and transformers write prompts with the model's chat template. So a prefill in the template is in all
prompts, and no server has to know of it. Servers return what the model writes after the prefill.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import cache
from hashlib import sha256

from podium.errors import ConfigError, PlanError
from podium.plan_text import Spelling, parse_plan
from podium.planners import ChatPlanner, PlanRequest, Show, Turn
from podium.planners.chat import round_feedback
from podium.types import Message, Plan
from podium.workers import Card, Kind, MeasuredRate, Price, ScriptedWorker
from podium_train.environments import Episode

_ADDED = re.compile(
    r'\{# podium: prefill #\}\{\{ ("(?:[^"\\]|\\.)*") if add_generation_prompt else "" \}\}\Z', re.DOTALL
)
_ANY_WORKERS = 10**6
_ANY_STEPS = 32


def with_prefill(template: str, prefill: str) -> str:
    """Return a chat template whose prompts end with a prefill."""
    # Jinja leaves out one line end at the end of a template.
    plain = _ADDED.sub("", template).removesuffix("\n")
    if not prefill:
        return plain
    text = json.dumps(prefill, ensure_ascii=False)
    return f'{plain}{{# podium: prefill #}}{{{{ {text} if add_generation_prompt else "" }}}}'


def prefill_of(template: str) -> str:
    """Return the prefill that `with_prefill` put into a chat template; empty if there is none."""
    found = _ADDED.search(template)
    return "" if found is None else str(json.loads(found[1]))


def whole_text(completion: str, prefill: str) -> str:
    """Return an example's text with the prefill, which it may already begin with."""
    if completion.startswith(prefill):
        return completion
    text, plan = prefill + completion, _plan_in(completion)
    if plan is not None and _plan_in(text) != plan:
        raise ConfigError(
            f"the prefill {prefill!r:.60} changes the plan of the example {completion!r:.60}: write examples "
            "that begin with the prefill, or another prefill"
        )
    return text


def _plan_in(text: str) -> Plan | None:
    try:
        return parse_plan(text, workers=_ANY_WORKERS, max_steps=_ANY_STEPS)
    except PlanError:
        return None


MAX_STEPS = 5
"""Maximum number of steps of a plan, as in the paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptStyle:
    """How a conductor is asked for a plan: settings of `podium.planners.ChatPlanner` and of its run.

    Raises:
        ConfigError: a setting is invalid.
    """

    spelling: Spelling = "lists"
    """The form of the plan's text."""
    show: Show = "cards"
    """Whether the prompt describes workers by their cards, or only by their numbers."""
    examples: int | None = None
    """Number of example plans, from 0 to 4; `None` takes the planner's default."""
    reasons: bool = False
    """Whether the conductor is asked for a line with the reason of each step."""
    max_steps: int = MAX_STEPS
    """`Limits.plan_steps` of the runs in production."""
    rounds: int = 1
    """1, or 2 for a conductor that also learns to improve or keep the answer of its plan."""
    prefill: str = ""
    """Text with which each text of the conductor begins, in all rounds. The chat template writes it, so the
    model continues it."""

    def __post_init__(self) -> None:
        if self.max_steps < 1:
            raise ConfigError(f"max_steps is {self.max_steps!r}: it must be 1 or more")
        if self.rounds not in (1, 2):
            raise ConfigError(f"rounds is {self.rounds!r}: write 1 or 2")
        if self.prefill != self.prefill.lstrip():
            raise ConfigError(f"prefill is {self.prefill!r:.60}: it must not begin with blank space")
        _planner(self)


def messages(episode: Episode, style: PromptStyle) -> tuple[Message, ...]:
    """Return the messages that a planner in production sends to its model for this episode.

    A run in production adds what remains of its budget, if a limit is near.
    """
    request = plan_request(episode, max_steps=style.max_steps)
    return tuple(_planner(style).messages(request))


def second_messages(episode: Episode, style: PromptStyle, *, text: str, answer: str) -> tuple[Message, ...]:
    """Return the messages that a planner in production sends for the second round.

    Args:
        episode: the episode.
        style: how the conductor is asked.
        text: what the conductor wrote in the first round.
        answer: the answer of its plan.
    """
    request = plan_request(episode, max_steps=style.max_steps)
    turn = Turn(text, round_feedback(answer, spelling=style.spelling))
    return tuple(_planner(style).messages(replace(request, turns=(turn,), may_keep=True)))


def plan_request(episode: Episode, *, max_steps: int = MAX_STEPS) -> PlanRequest:
    """Return the request that a run in production gives to any planner for this episode."""
    return PlanRequest(
        query=(Message("user", episode.question),),
        context=tuple((name, len(text)) for name, text in episode.texts),
        cards=episode.cards,
        max_steps=max_steps,
        shows_question=episode.shows_question,
        fills=episode.fills,
        stream=False,
    )


def fingerprint(style: PromptStyle) -> str:
    """Return a digest of the prompt's constant text and settings.

    It changes whenever the installed Podium would write another prompt for the same episode. A conductor
    should be served with the prompt that it was trained with.
    """
    told = [[(message.role, message.text) for message in prompt] for prompt in sample_prompts(style)]
    content = json.dumps([asdict(style), told], ensure_ascii=False)
    return sha256(content.encode()).hexdigest()[:16]


def sample_prompts(style: PromptStyle) -> Sequence[tuple[Message, ...]]:
    """Return prompts that together have each part of a prompt that depends on an episode."""
    prompts = [messages(each, style) for each in _samples()]
    if style.rounds > 1:
        prompts += [second_messages(each, style, text="the plan", answer="4") for each in _samples()]
    return prompts


@cache
def _planner(style: PromptStyle) -> ChatPlanner:
    return ChatPlanner(
        ScriptedWorker("conductor", ""),
        spelling=style.spelling,
        show=style.show,
        examples=style.examples,
        reasons=style.reasons,
        constrain=False,
    )


@cache
def _samples() -> Sequence[Episode]:
    """Return episodes whose prompts together have each part that depends on an episode."""
    kind = Kind("sums", ("What is 1 + 1?",))
    rate = MeasuredRate(
        kind=kind, rate=0.5, low=0.1, high=0.9, right=1.0, answers=2, measured_on=date(2026, 1, 1)
    )
    card = Card(
        name="a",
        description="Adds.",
        price=Price(input=1.0, output=2.0),
        context_window=8192,
        parts=frozenset({"image_url"}),
        measured=(rate,),
    )
    pools = [tuple(Card(name=f"w{number}") for number in range(size)) for size in (1, 2, 3, 5, 8)]
    plain = [_sample(cards) for cards in pools]
    return [*plain, _sample((card, *pools[1]), fills=(1, 2)), _sample((card,), fills=(0,), alone=True)]


def _sample(cards: tuple[Card, ...], *, fills: tuple[int, ...] = (), alone: bool = False) -> Episode:
    return Episode(
        question="What is 2 + 2?",
        cards=cards,
        workers=tuple(card.name for card in cards),
        kind="sums",
        texts=(("part_1", "What is 2 + 2?"),) if alone else (),
        shows_question=not alone,
        fills=fills,
    )
