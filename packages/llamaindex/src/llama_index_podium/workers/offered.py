"""A tool that a model may ask for and nothing here calls: the call goes back to the caller of the run."""

from typing import Any

from llama_index.core.tools import AsyncBaseTool, ToolMetadata, ToolOutput

from podium.types import Part


class Offered(AsyncBaseTool):
    """A tool as OpenAI writes it, in the form in which LlamaIndex's models are offered one."""

    def __init__(self, tool: Part) -> None:
        self._metadata = _Described(tool["function"])

    @property
    def metadata(self) -> ToolMetadata:
        """Its name, what it does, and what it takes."""
        return self._metadata

    def call(self, *_: Any, **__: Any) -> ToolOutput:
        """Refuse: a worker's model asks for calls, and makes none."""
        raise NotImplementedError(f"{self._metadata.name} is the caller's to call")

    async def acall(self, *_: Any, **__: Any) -> ToolOutput:
        """Refuse, as `call`."""
        return self.call()


class _Described(ToolMetadata):
    """What is known of a tool whose parameters are a JSON schema already."""

    def __init__(self, function: Part) -> None:
        super().__init__(description=function.get("description") or "", name=function["name"])
        self._parameters = function.get("parameters") or {"type": "object", "properties": {}}

    def get_parameters_dict(self) -> dict[str, Any]:
        return dict(self._parameters)
