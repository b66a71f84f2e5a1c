"""Examples for supervised training, as JSON lines: the best plans of an arm.

Each line has the messages that a conductor is sent, and the text that it should answer:

    {"messages": [{"role": "system", "content": "…"}, {"role": "user", "content": "…"}], "completion": "…",
     "source": "best of 8 of qwen", "reward": 1.0, "kind": "sums"}
"""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio

from podium.errors import ConfigError
from podium.plan_text import write_plan
from podium.types import Message
from podium_train.environments import Environment, Episode, RecordedAnswers
from podium_train.evaluation import PlanArm, Trial, best_card_arm, evaluate, reasoned_arm
from podium_train.prompts import PromptStyle, messages
from podium_train.recipe import Recipe, environment_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One plan to learn."""

    messages: tuple[Message, ...]
    """What the conductor is sent; only text."""
    completion: str
    """What it should answer."""
    source: str
    """Who wrote the plan, for readers."""
    reward: float
    """The reward of the plan, 0 to 1."""
    kind: str
    """The kind of the question."""

    @property
    def key(self) -> str:
        """A digest of the messages and the completion."""
        content = [[(message.role, message.text) for message in self.messages], self.completion]
        return sha256(json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()


def write_examples(path: Path | str, examples: Iterable[Example]) -> int:
    """Write each example once to a file, which is replaced as a whole, and return their number.

    Raises:
        ConfigError: there are no examples, or the file cannot be written.
    """
    path = Path(path)
    found: dict[str, Example] = {}
    for example in examples:
        found.setdefault(example.key, example)
    if not found:
        raise ConfigError(f"there are no examples for {path}: no plan was good enough")
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text("".join(map(_line, found.values())), encoding="utf-8")
        draft.replace(path)
    except (OSError, UnicodeEncodeError) as error:
        draft.unlink(missing_ok=True)
        raise ConfigError(f"{path} cannot be written: {error}") from error
    return len(found)


def read_examples(path: Path | str) -> Sequence[Example]:
    """Read a file of examples."""
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    found = [_example(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise ConfigError(f"{path} has no examples")
    return found


def _line(example: Example) -> str:
    row = {
        "messages": [{"role": message.role, "content": message.text} for message in example.messages],
        "completion": example.completion,
        "source": example.source,
        "reward": example.reward,
        "kind": example.kind,
    }
    return json.dumps(row, ensure_ascii=False) + "\n"


def _example(line: str, where: str) -> Example:
    try:
        row: dict[str, Any] = json.loads(line)
        return Example(
            messages=tuple(Message(each["role"], _text(each["content"])) for each in row["messages"]),
            completion=_text(row["completion"]),
            source=_text(row.get("source", "")),
            reward=float(row.get("reward", 1.0)),
            kind=_text(row.get("kind", "")),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{where} is not an example: {type(error).__name__}: {error}") from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not a text")
    return value


async def best_of(
    environment: Environment,
    episodes: Sequence[Episode],
    arm: PlanArm,
    style: PromptStyle,
    *,
    least: float = 1.0,
    at_once: int = 8,
) -> list[Example]:
    """Return the best of an arm's plans for each episode, if it is good enough.

    Of plans with equal rewards the cheapest is taken, then the shortest. A plan whose outcome cannot be known
    is left out. The completion is the arm's text, with its reasoning, if the arm writes in the spelling of
    `style`; otherwise it is the plan alone in that spelling.

    Args:
        environment: carries out the plans.
        episodes: the episodes, of the split `train`.
        arm: plans each episode as often as it has samples: a prompted planner, or a rule that needs no model.
        style: how the conductor will be asked.
        least: the lowest reward of an example. 0.5 takes each valid plan, whatever its answer. So a policy
            learns the form of plans from random plans, and nothing about the workers.
        at_once: maximum plans at the same time.

    Raises:
        ConfigError: there is no episode.
    """
    trials = await evaluate(environment, episodes, [arm], max_steps=style.max_steps, at_once=at_once)
    of_episode: dict[int, list[Trial]] = {}
    for place, trial in enumerate(trials[arm.name]):
        if trial.reward.plan is not None and (trial.reward.value or 0.0) >= least:
            of_episode.setdefault(place // arm.samples, []).append(trial)
    source = arm.name if arm.samples == 1 else f"best of {arm.samples} of {arm.name}"
    return [_example_of(min(each, key=_rank), arm, style, source) for each in of_episode.values()]


def _rank(trial: Trial) -> tuple[float, float, int]:
    """Return the best first: by reward, cost, steps."""
    plan, outcome = trial.reward.plan, trial.reward.outcome
    assert plan is not None
    cost = float("inf") if outcome is None or outcome.cost is None else outcome.cost
    return -(trial.reward.value or 0.0), cost, len(plan.calls)


def _example_of(trial: Trial, arm: PlanArm, style: PromptStyle, source: str) -> Example:
    plan, value = trial.reward.plan, trial.reward.value
    assert plan is not None
    assert value is not None
    keeps = arm.spelling == style.spelling
    return Example(
        messages=messages(trial.episode, style),
        completion=(trial.text if keeps else write_plan(plan, style.spelling)).strip(),
        source=source,
        reward=value,
        kind=trial.episode.kind,
    )


def write_example_plans(recipe: Recipe, folder: Path, *, episodes: int, seed: int) -> int:
    """Write right plans that choose workers by the measured rates on their cards.

    With `reasons` in the style of the prompt, each plan has a line with the kind and the rates of each part.
    """
    assert recipe.sft is not None
    path = folder / recipe.sft.examples
    environment = environment_of(recipe.environment, folder)
    if not isinstance(environment, RecordedAnswers):
        raise ConfigError(
            f"[environment] is of type {recipe.environment.type!r}: this command needs recorded answers, "
            'with type = "recorded"'
        )
    if path.exists():
        raise ConfigError(f"{path} exists: delete it, or name another file as 'examples' in [sft]")
    drawn = environment.episodes("train", episodes, seed=seed)
    style = recipe.prompt.style
    arm = reasoned_arm(environment) if style.reasons else best_card_arm(environment)
    found = anyio.run(best_of, environment, drawn, arm, style)
    return write_examples(path, found)
