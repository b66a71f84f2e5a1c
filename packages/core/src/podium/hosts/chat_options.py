"""What a call of a chat model says besides its messages, as Podium takes it: tools and sampling."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from podium.errors import ConfigError
from podium.types import Constraint, Part, Sampling, Tools

SAMPLING_OPTIONS: Final = (
    "temperature", "top_p", "max_tokens", "seed", "stop", "reasoning_effort", "response_format",
)  # fmt: skip
"""What `read_sampling` reads."""
_CHOICES: Final = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


def read_sampling(options: Mapping[str, Any], *, of: str, takes: Sequence[str] = ()) -> Sampling:
    """Return how an answer is to be written.

    Args:
        options: what a call says, under OpenAI's names; an option that is `None` says nothing.
        of: the name of the chat model, for the error.
        takes: further options that the call takes, for the error.

    Raises:
        ConfigError: there is an option that a conductor does not take, or a `response_format` that
            holds no JSON schema.
    """
    said = {name: value for name, value in options.items() if value is not None}
    if unknown := sorted(said.keys() - set(SAMPLING_OPTIONS)):
        taken = ", ".join(sorted({*SAMPLING_OPTIONS, *takes}))
        raise ConfigError(f"{of} takes no {', '.join(unknown)}: a call may say {taken}")
    stop = said.get("stop", ())
    return Sampling(
        temperature=said.get("temperature"),
        top_p=said.get("top_p"),
        max_tokens=said.get("max_tokens"),
        seed=said.get("seed"),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        effort=said.get("reasoning_effort"),
        constraint=_constraint(said.get("response_format")),
    )


def read_tools(offered: Sequence[Part] | None, choice: object = None) -> Tools:
    """Return the tools that a call offers.

    Args:
        offered: functions, as OpenAI writes them.
        choice: `auto`, `none`, `required` or `any`; `True` for `required`; the name of a tool, or a
            function as OpenAI writes it; `None` or `False` leaves the choice to the model.

    Raises:
        ConfigError: the choice is a tool that is not offered.
    """
    tools = tuple(offered or ())
    if choice is None or choice is False:
        return Tools(tools)
    if choice is True:
        return Tools(tools, "required")
    if isinstance(choice, str) and choice in _CHOICES:
        return Tools(tools, _CHOICES[choice])
    name: object = choice
    if isinstance(choice, Mapping):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, Mapping) else None
    names = [tool["function"]["name"] for tool in tools]
    if name not in names:
        raise ConfigError(f"tool_choice {choice!r:.80} is none of the tools: {', '.join(names) or 'none'}")
    return Tools(tools, {"type": "function", "function": {"name": name}})


def _constraint(form: object) -> Constraint | None:
    if form is None:
        return None
    if isinstance(form, Mapping) and form.get("type") == "json_schema":
        schema = form.get("json_schema")
        if isinstance(schema, Mapping) and isinstance(schema.get("schema"), Mapping):
            return Constraint("json", schema["schema"])
    shape = '{"type": "json_schema", "json_schema": {"name": …, "schema": …}}'
    raise ConfigError(f"response_format is {form!r:.80}: it is {shape}")
