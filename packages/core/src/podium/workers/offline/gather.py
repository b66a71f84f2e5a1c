"""An offline worker that joins what earlier steps returned."""

from collections.abc import AsyncGenerator, Iterable

from podium.errors import WorkerRefused
from podium.types.messages import Completion
from podium.workers.worker import FREE, Card, Request, VisibleStep, Worker, step_input_of

DESCRIPTION = "Gathers the outputs of earlier steps into one answer, word for word; adds nothing of its own."


class Gather(Worker):
    """Joins the outputs of its visible steps into one Markdown text, each under its subtask.

    Nothing is left out, reworded or judged, so sources stay where they were. The output of
    a single visible step is returned as it is.

    Args:
        name: what plans call it.
        labels: properties that rules refer to.
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
    # A heading of its own level would be closed by the headings of what it holds.
    text = f"(no output: {shown.gap})" if shown.gap else shown.output.strip()
    return f"**{heading.replace('*', chr(92) + '*')}**\n\n{text}"
