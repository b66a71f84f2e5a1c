"""Show humans in a pool the input of their step, because AutoGen's own prompt shows nothing of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import iscoroutinefunction
from typing import Any

from autogen_agentchat.agents import UserProxyAgent

from autogen_podium.workers.members import members_of
from podium.prompts.prompt import WHERE
from podium.secrets import printable
from podium.types import Message
from podium.workers import StepInput, VisibleStep


@contextmanager
def prompting(agent: object, prompt: str) -> Iterator[None]:
    """Put a text before each prompt of the humans in an agent or a team, in the block."""
    held = [(human, human.input_func) for human in members_of(agent) if isinstance(human, UserProxyAgent)]
    try:
        for human, ask in held:
            human.input_func = _prompted(ask, prompt)
        yield
    finally:
        for human, ask in held:
            human.input_func = ask


def human_prompt(step_input: StepInput) -> str:
    """Return the text of a step for a human: the question, the visible steps, the subtask.

    Control characters are removed, because a terminal would execute them.
    """
    *history, question = step_input.query or (Message("user", ""),)
    parts = []
    if history:
        parts.append("The conversation so far:\n" + "\n".join(f"{m.role}: {m.text}" for m in history))
    if step_input.query:
        parts.append(f"The question:\n{question.text}")
    parts += [_shown(shown) for shown in step_input.visible]
    return printable("\n\n".join([*parts, f"Your part:\n{step_input.subtask}"]))


def _shown(shown: VisibleStep) -> str:
    number = shown.step if shown.label is None else shown.label
    step = f"Step {number}{WHERE[shown.where]}"
    ended = f"has no output: {shown.gap}" if shown.gap else f"returned:\n{shown.output}"
    return f"{step} ({shown.subtask}) {ended}"


def _prompted(ask: Any, prompt: str) -> Any:
    """Return an input function of the same kind, sync or async, because an agent checks the kind once."""

    async def ask_async(asked: str, *more: Any) -> str:
        return str(await ask(f"{prompt}\n\n{asked}", *more))

    def ask_sync(asked: str) -> str:
        return str(ask(f"{prompt}\n\n{asked}"))

    return ask_async if iscoroutinefunction(ask) else ask_sync
