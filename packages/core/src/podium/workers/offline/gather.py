"""An offline worker that joins the outputs of earlier steps."""

from collections.abc import AsyncGenerator, Iterable

from podium.errors import WorkerRefused
from podium.types.messages import Completion
from podium.workers.worker import FREE, Card, Request, VisibleStep, Worker, step_input_of

DESCRIPTION = "Gathers the outputs of earlier steps into one answer, word for word; adds nothing of its own."


class Gather(Worker):
    """Joins the outputs of its visible steps into one Markdown text, each under its subtask.

    The outputs are not changed, so that sources stay in place. The output of a single visible step is
    returned without a heading.

    Args:
        name: its name in plans.
        labels: labels for the rules of a policy.
    """

    uses_tokens = False
    reads_prose = False

    def __init__(self, name: str = "gather", *, labels: Iterable[str] = ()) -> None:
        self.card = Card(name=name, description=DESCRIPTION, price=FREE, labels=frozenset(labels))

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Join the visible steps.

        Raises:
            WorkerRefused: no step is visible.
        """
        visible = step_input_of(request).visible
        if not any(shown.output for shown in visible):
            raise WorkerRefused("there is nothing to gather: give this step access to earlier ones")
        text = visible[0].output if len(visible) == 1 else "\n\n".join(_section(shown) for shown in visible)
        if request.stream:
            yield text
        yield Completion(text)


def _section(shown: VisibleStep) -> str:
    heading = " ".join(shown.subtask.split())
    # Bold text, because headings in the output would end a real heading.
    text = f"(no output: {shown.gap})" if shown.gap else shown.output.strip()
    return f"**{heading.replace('*', chr(92) + '*')}**\n\n{text}"
