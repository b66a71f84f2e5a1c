"""A worker that calls an AutoGen tool."""

from typing import Any

from autogen_core import CancellationToken
from autogen_core.tools import BaseTool

from autogen_podium.cancellation import cancelling
from podium.hosts import ToolWorker
from podium.workers import Card


class AutoGenTool(ToolWorker):
    """Calls a tool with the arguments in the subtask.

    Args:
        tool: the tool.
        card: the worker's card; the subtask's format is added to its description.
    """

    def __init__(self, tool: BaseTool[Any, Any], *, card: Card) -> None:
        super().__init__(tool.schema.get("parameters", {}), self._run, card=card)
        self.tool = tool

    async def _run(self, arguments: dict[str, Any]) -> str:
        token = CancellationToken()
        return self.tool.return_value_as_string(await cancelling(token, self.tool.run_json(arguments, token)))
