"""A person as a worker, who answers the questions of steps."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from time import time

from podium.budget.limits import Spend
from podium.errors import ConfigError, WorkerRefused
from podium.types.events import ApprovalAsked, Question
from podium.types.messages import Completion
from podium.types.steps import Step
from podium.workers.worker import FREE, Card, Request, StepInput, Worker

PERSON = "A person, who answers slowly: ask only what the others cannot know or may not decide."


class PersonWorker(Worker):
    """Asks a person. The question is the subtask with what the step sees; the answer is its output.

    Nobody is asked before the plan is accepted. Other steps continue while the question waits. It costs
    nothing, is not asked again after an answer, and has no fallbacks. In a run with a journal it waits there,
    also after the end of the process: the run ends as `waiting`, `Conductor.decide` (`podium decide RUN
    --answer TEXT`) records the answer, and `resume` continues the run.

    Args:
        card: the worker's card, or its name.
        choices: the possible answers; `None` for any text. The answer of a step with `returns` is JSON that
            fits the schema, or a string.
        ask: asks within the process, and returns the answer, within `Limits.seconds`. `None` lets the run
            wait in its journal.
        deadline: seconds from the question until `otherwise` stands for the answer; `None` for no limit. A
            run that waits in its journal continues when it is resumed, which `podium serve` does.
        otherwise: the answer after the deadline; with `None` the step then fails (`unanswered`), and a later
            `resume` asks again.

    Raises:
        ConfigError: `deadline` is not positive, or `otherwise` is without `deadline`, or none of `choices`.
    """

    uses_tokens = False

    def __init__(
        self,
        card: Card | str,
        *,
        choices: Sequence[str] | None = None,
        ask: Callable[[ApprovalAsked], Awaitable[str]] | None = None,
        deadline: float | None = None,
        otherwise: str | None = None,
    ) -> None:
        given = card if isinstance(card, Card) else Card(name=card, description=PERSON)
        self.card = replace(given, price=FREE)
        self.choices = tuple(choices or ())
        self.ask = ask
        self.by = given.name
        """The name that is recorded with the answers of `ask`."""
        self.deadline = deadline
        self.otherwise = otherwise
        if deadline is not None and deadline <= 0:
            raise ConfigError(f"deadline {deadline} must be more than 0")
        if otherwise is not None and deadline is None:
            raise ConfigError("otherwise stands for the answer after the deadline: set deadline")
        if otherwise is not None and self.choices and otherwise not in self.choices:
            raise ConfigError(f"otherwise is {otherwise!r:.80}: write one of the choices")

    def question(self, step: Step) -> Question:
        """Return what may be answered to the question of a step, which is asked now."""
        until = None if self.deadline is None else time() + self.deadline
        returns = step.returns or self.card.returns
        return Question(choices=self.choices, returns=None if returns is None else dict(returns), until=until)

    def asked(self, step_input: StepInput) -> str:
        """Return the text of the question: the subtask, and what the step sees."""
        seen = [
            f"Step {each.step if each.label is None else each.label}: {each.subtask}\n"
            + (f"(no output: {each.gap})" if each.gap else each.output)
            for each in step_input.visible
        ]
        texts = [f"Text {name}:\n{text}" for name, text in step_input.texts]
        return "\n\n".join([step_input.subtask.strip(), *seen, *texts])

    def worst_case(self, request: Request, answer_tokens: int) -> Spend:  # noqa: ARG002 - it costs nothing
        """Return that an answer costs nothing."""
        return Spend()

    def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:  # noqa: ARG002
        """Raise `WorkerRefused`: only steps of plans ask a person, and not as a fallback."""
        raise WorkerRefused(f"{self.card.name!r} is a person, who answers only as the worker of a step")
