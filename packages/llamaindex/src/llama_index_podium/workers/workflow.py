"""A worker that runs the user's own workflow."""

from typing import Any

from llama_index.core.workflow import StartEvent, Workflow

from llama_index_podium.sources import note
from llama_index_podium.usage import Spent, spending
from llama_index_podium.workers.answers import completion_of
from llama_index_podium.workers.workflow_run import events_of_run, nodes_of_result, text_of_result
from podium.errors import ConfigError
from podium.hosts import ToolWorker, worker_errors
from podium.types import Completion
from podium.workers import Card


class WorkflowWorker(ToolWorker):
    """Runs a workflow, whose start event defines its arguments, like the schema of a tool.

    Args:
        workflow: the workflow. It runs in the event loop of the run.
        card: the worker's card; its price is the price of the models that the workflow calls.
        input_field: the field that gets the subtask, for a start event without declared fields.

    Raises:
        ConfigError: the start event declares no fields and there is no `input_field`, or it declares fields
            and there is one.
    """

    uses_tokens = True

    def __init__(self, workflow: Workflow, *, card: Card, input_field: str | None) -> None:
        self.workflow = workflow
        super().__init__(_schema(workflow, input_field, card.name), self._run, card=card)

    async def _run(self, arguments: dict[str, Any]) -> Completion:
        name, spent = self.card.name, Spent()
        with worker_errors(name, usage=lambda: spent.known, has_run=lambda: True):
            with spending(spent):  # the run's tasks are created here, and inherit it
                handler = self.workflow.run(**arguments)
            async for _ in events_of_run(handler, name):
                pass
            result: Any = await handler
            note(nodes_of_result(result))
            return completion_of(text_of_result(result), spent, self.card)


def _schema(workflow: Workflow, input_field: str | None, name: str) -> dict[str, Any]:
    """Return the JSON schema of a workflow's arguments."""
    start = workflow.start_event_class
    declared = [name for name in start.model_fields if name not in StartEvent.model_fields]
    if input_field is None and declared:
        return start.model_json_schema()
    if input_field is None:
        told = f"workflow {name!r} starts with a {start.__name__} that declares no fields"
        raise ConfigError(
            f"{told}: name the field that the steps of the workflow read, with "
            "as_worker(..., input_field='query'), or declare the fields in a subclass of StartEvent"
        )
    if declared:
        raise ConfigError(
            f"workflow {name!r} has declared fields ({', '.join(declared)}): remove input_field"
        )
    return {"properties": {input_field: {"type": "string"}}, "required": [input_field]}
