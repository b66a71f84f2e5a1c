"""A conductor as a model of Inspect: `podium/NAME`."""

from collections.abc import Collection
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from inspect_ai.model import ChatMessage, GenerateConfig, Model, ModelAPI, ModelOutput, modelapi
from inspect_ai.model._model import record_and_check_model_usage
from inspect_ai.solver._task_state import sample_state
from inspect_ai.tool import ToolChoice, ToolInfo

import podium as podium_package
from inspect_podium.messages import METADATA, from_inspect, offered, output_of, sampling_of, usage_of
from inspect_podium.transcript import show_run
from podium.conductor import Conductor
from podium.config import find_config, load_config
from podium.errors import ConfigError, PodiumError
from podium.hosts import ChatCall, ContinuationStore, Partial
from podium.hosts.results import check_partial
from podium.policy import Policy
from podium.run import RunOptions
from podium.usage import Usage


class ConductorAPI(ModelAPI):
    """A provider of models for Inspect. Its model is a conductor of a `podium.toml`, or one made in Python.

    The attribute `base_url` is not a URL but a digest of the config. Inspect's cache finds answers by the
    name of the model, this value, the messages and the settings. So a changed config does not get old
    answers.

    Args:
        model_name: any name.
        base_url: not supported.
        api_key: not supported.
        config: default settings.
        path: the `podium.toml`; `None` looks for it as the command line does.
        partial: whether an incomplete answer is an answer (`return`) or an error of the sample (`raise`).
        journal: whether runs are recorded in the journal of the config.
        labels: labels of the questions; see `Conductor`.
        policy: a policy in addition to the conductor's.
        made: a conductor made in Python; replaces the conductor of a config.
        version: the value of `base_url` for `made`.

    Raises:
        ConfigError: there is no config, or it is wrong; or an argument is not supported.
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
        labels: Collection[str] = (),
        policy: Policy | None = None,
        made: Conductor | None = None,
        version: str = "",
        **unknown: Any,
    ) -> None:
        said = unknown | {
            name: value for name, value in (("base_url", base_url), ("api_key", api_key)) if value is not None
        }
        if said:
            told = f"podium/{model_name} does not accept {', '.join(said)}"
            raise ConfigError(f"{told}: it accepts path, partial, journal, labels")
        self._partial = check_partial(partial)
        if made is None:
            found = find_config(path)
            made, version = load_config(found).conductor(journaled=journal), fingerprint(found)
        super().__init__(model_name, base_url=f"podium:{version}", config=config)
        self._conductor = made
        self._options: RunOptions = {"labels": labels, "policy": policy}
        self._continuations = ContinuationStore()

    async def generate(
        self,
        input: list[ChatMessage],  # noqa: A002 - the name of the base class
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        """Answer the messages with a run of the conductor.

        The tools are offered to the worker of the plan's last step, if it accepts tools. The turn after a
        tool call reuses the plan and the outputs of the other steps.

        A sample that Inspect repeats (`retry_on_error`) finds its run that waits.

        Raises:
            ConfigError: a setting is not supported.
            PodiumError: the run has no answer; its usage is in the log.
        """
        call = ChatCall(
            self._conductor,
            from_inspect(input),
            tools=offered(tools, tool_choice),
            sampling=sampling_of(config),
            store=self._continuations,
            partial=self._partial,
            options=self._options,
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
        show_run((output.metadata or {})[METADATA])
        return output


@modelapi(name="podium")
def podium() -> type[ModelAPI]:
    """Return the provider of `podium/NAME`, whose model is the conductor of a `podium.toml`."""
    return ConductorAPI


def fingerprint(path: Path) -> str:
    """Return a text that changes with the content of a config or the version of Podium."""
    digest = sha256(path.read_bytes()).hexdigest()[:16]
    return f"{podium_package.__version__}:{digest}"


def conductor_model(  # noqa: PLR0913 - one parameter for each setting
    conductor: Conductor,
    name: str = "conductor",
    *,
    version: str | None = None,
    partial: Partial = "return",
    labels: Collection[str] = (),
    policy: Policy | None = None,
    config: GenerateConfig = GenerateConfig(),  # noqa: B008 - never changed
) -> Model:
    """Return your own conductor as a model, for `eval(task, model=...)`.

    Args:
        conductor: the conductor.
        name: the name of the model in logs.
        version: a text for Inspect's cache. Change it when you change the planner or the pool, so that old
            answers are not reused. With `None`, cached answers are used only in this process.
        partial: whether an incomplete answer is an answer (`return`) or an error of the sample (`raise`).
        labels: labels of the questions; see `Conductor`.
        policy: a policy in addition to the conductor's.
        config: default settings.
    """
    told: dict[str, Any] = {"version": version or uuid4().hex, "partial": partial}
    told |= {"labels": labels, "policy": policy}
    api = podium(name, config=config, made=conductor, **told)  # type: ignore[call-arg] # a constructor
    model = Model(api, config)
    model.api.qualified_model_name = str(model)
    return model
