"""What people are asked, and reads what they answer: outputs of steps, and changed arguments of actions."""

import json
from datetime import datetime

from podium.errors import ConfigError, PodiumError, QueryError
from podium.execution.context import ConductorSettings
from podium.prompts.output import BadOutput, read_output
from podium.secrets import MARK, scrub
from podium.types.events import ApprovalAsked
from podium.types.messages import storable
from podium.types.references import literal
from podium.types.steps import Step, step_at
from podium.workers.worker import StepInput


def question_lines(asked: ApprovalAsked) -> list[str]:
    """Return the question of a step, and what may be answered."""
    question, lines = asked.question, [f"step {asked.name} asks: {asked.asked}"]
    assert question is not None
    if question.choices:
        lines.append(f"the answer is one of: {', '.join(question.choices)}")
    if question.returns is not None:
        lines.append(f"the answer is JSON of the schema {json.dumps(question.returns)}")
    if question.until is not None:
        lines.append(
            f"there is time until {datetime.fromtimestamp(question.until).astimezone():%Y-%m-%d %H:%M:%S %Z}"
        )
    return lines


async def read_answer(asked: ApprovalAsked, said: str) -> str:
    """Return an answer to the question of a step, as the output of the step.

    Raises:
        QueryError: the answer is empty, is none of the choices, or does not fit its type.
    """
    question = asked.question
    assert question is not None
    told = f"the answer to step {asked.name}"
    if not (text := storable(said).strip()):
        raise QueryError(f"{told} is empty: write a text")
    if question.choices and text not in question.choices:
        raise QueryError(f"{told} is {text!r:.80}: write one of {', '.join(map(repr, question.choices))}")
    if question.returns is None:
        return text
    try:
        return await read_output(text, question.returns, None)
    except BadOutput as error:
        raise QueryError(f"{told} {error}") from error


def read_arguments(asked: ApprovalAsked, said: str, settings: ConductorSettings | None) -> str:
    """Return what an action is asked to do instead.

    Args:
        asked: the action that waits.
        said: the new arguments.
        settings: the settings of the conductor, whose worker checks the arguments; `None` checks their form.

    Raises:
        ConfigError: no action waits, but a plan or a fan-out.
        QueryError: the arguments are empty, hold a secret, are not JSON for a worker that is given JSON, or
            the worker refuses them.
    """
    if asked.step is None or asked.is_fan_out or asked.question is not None:
        raise ConfigError(f"{asked.told}, and only an action has arguments")
    told = f"the arguments of step {asked.name}"
    if not (text := storable(said).strip()):
        raise QueryError(f"{told} are empty: write what the action is to do")
    if MARK in text or scrub(text) != text:
        raise QueryError(f"{told} hold a secret, which is not recorded: change the plan instead")
    if isinstance(_data(asked.asked), dict) and not isinstance(_data(text), dict):
        raise QueryError(f"{told} are {text!r:.80}: write a JSON object, such as {asked.asked:.200}")
    if settings is not None and (wrong := misfit(asked, text, settings)):
        raise QueryError(wrong)
    return text


def misfit(asked: ApprovalAsked, arguments: str, settings: ConductorSettings) -> str:
    """Return why an action cannot be carried out with these arguments; empty if it can.

    A fallback may accept what the worker refuses.
    """
    step, pool = step_at(asked.plan.steps, asked.name), settings.pool
    if not isinstance(step, Step) or settings.retry.fallbacks_of(step.worker, pool):
        return ""
    try:
        pool.workers[step.worker].asked(StepInput(arguments, template=literal(arguments)))
    except PodiumError as error:
        return f"the arguments {arguments!r:.80} do not fit step {asked.name}: {error}"
    return ""


def _data(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
