"""A conductor as a model of Inspect: `podium/NAME`."""

from hashlib import sha256
from typing import Any
from uuid import uuid4

from inspect_ai.model import ChatMessage, GenerateConfig, Model, ModelAPI, ModelOutput, modelapi
from inspect_ai.model._model import record_and_check_model_usage
from inspect_ai.solver._task_state import sample_state
from inspect_ai.tool import ToolChoice, ToolInfo

import podium as podium_package
from inspect_podium.messages import from_inspect, offered, output_of, sampling_of, usage_of
from inspect_podium.transcript import show_run
from podium.conductor import Conductor
from podium.config import find_config, load_config
from podium.errors import ConfigError, PodiumError
from podium.hosts import ChatCall, ContinuationStore, Partial
from podium.hosts.results import check_partial
from podium.usage import Usage


class ConductorAPI(ModelAPI):
    """A provider of models for Inspect. Its model is a conductor of a `podium.toml`, or one made in Python.

    The attribute `base_url` is not a URL but a digest of the config. Inspect's cache finds answers by the
    name of the model, this value, the messages and the settings. So a changed config does not get old
    answers.
    """

    def __init__(  # noqa: PLR0913 - the signature of the base class, and settings
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008 - the signature of the base class
        *,
        path: str | None = None,
        partial: Partial = "return",
        journal: bool = False,
        made: Conductor | None = None,
        version: str = "",
        **unknown: Any,
    ) -> None:
        others = {"base_url": base_url, "api_key": api_key}
        unknown |= {name: value for name, value in others.items() if value is not None}
        if unknown:
            told = f"podium/{model_name} does not accept {', '.join(unknown)}"
            raise ConfigError(f"{told}: it accepts path, partial, journal")
        self._partial = check_partial(partial)
        if made is None:
            found = find_config(path)
            made = load_config(found).conductor(journaled=journal)
            version = f"{podium_package.__version__}:{sha256(found.read_bytes()).hexdigest()[:16]}"
        super().__init__(model_name, base_url=f"podium:{version}", config=config)
        self._conductor = made
        self._continuations = ContinuationStore()

    async def generate(
        self,
        input: list[ChatMessage],  # noqa: A002 - the name of the base class
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        """Answer the messages with a run of the conductor.

        The tools are offered to the steps whose workers accept tools. The turn after a tool call continues
        the plan.

        A sample that Inspect repeats (`retry_on_error`) finds its run that waits.
        """
        call = ChatCall(
            self._conductor,
            from_inspect(input),
            tools=offered(tools, tool_choice),
            sampling=sampling_of(config),
            store=self._continuations,
            partial=self._partial,
            session=None if (state := sample_state()) is None else state.uuid,
        )
        try:
            answer = await call.run()
        except PodiumError as error:
            spent: Any = getattr(error, "result", error)  # a `PlannerError` has the usage itself
            if isinstance(getattr(spent, "usage", None), Usage):
                usage = usage_of(spent.usage, spent.cost)
                record_and_check_model_usage(Model(self, GenerateConfig()), usage)
            raise
        output = output_of(answer, self.model_name, may_call=bool(tools) and tool_choice != "none")
        show_run(output)
        return output


@modelapi(name="podium")
def podium() -> type[ModelAPI]:
    """Return the provider of `podium/NAME`, whose model is the conductor of a `podium.toml`."""
    return ConductorAPI


def conductor_model(
    conductor: Conductor,
    name: str = "conductor",
    *,
    version: str | None = None,
    partial: Partial = "return",
    config: GenerateConfig = GenerateConfig(),  # noqa: B008 - never changed
) -> Model:
    """Return your own conductor as a model, for `eval(task, model=...)`.

    Args:
        conductor: the conductor.
        name: the name of the model in logs.
        version: a text for Inspect's cache. Change it when you change the planner or the pool, so that old
            answers are not reused. With `None`, cached answers are used only in this process.
        partial: whether an incomplete answer is an answer (`return`) or an error of the sample (`raise`).
        config: default settings.
    """
    told: dict[str, Any] = {"version": version or uuid4().hex, "partial": partial}
    api = podium(name, config=config, made=conductor, **told)  # type: ignore[call-arg] # a constructor
    model = Model(api, config)
    model.api.qualified_model_name = str(model)
    return model
