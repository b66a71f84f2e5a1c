"""The prefill: text with which a chat template begins each text of a conductor.

Trainers, vLLM, llama.cpp's server and transformers write prompts with the model's chat template. So a prefill
in the template is in all prompts, and no server has to know of it. Servers return what the model writes after
the prefill.
"""

import json
import re

from podium.errors import ConfigError, PlanError
from podium.plan_text import parse_plan
from podium.types import Plan

_ADDED = re.compile(
    r'\{# podium: prefill #\}\{\{ ("(?:[^"\\]|\\.)*") if add_generation_prompt else "" \}\}\Z', re.DOTALL
)
_ANY_WORKERS = 10**6
_ANY_STEPS = 32


def with_prefill(template: str, prefill: str) -> str:
    """Return a chat template whose prompts end with a prefill.

    Args:
        template: a chat template, which may have another prefill of this function.
        prefill: the text; empty for none.
    """
    # Jinja leaves out one line end at the end of a template.
    plain = _ADDED.sub("", template).removesuffix("\n")
    if not prefill:
        return plain
    text = json.dumps(prefill, ensure_ascii=False)
    return f'{plain}{{# podium: prefill #}}{{{{ {text} if add_generation_prompt else "" }}}}'


def prefill_of(template: str) -> str:
    """Return the prefill that `with_prefill` put into a chat template; empty if there is none."""
    found = _ADDED.search(template)
    return "" if found is None else str(json.loads(found[1]))


def whole_text(completion: str, prefill: str) -> str:
    """Return an example's text with the prefill, which it may already begin with.

    Raises:
        ConfigError: with the prefill the text has another plan, or none.
    """
    if completion.startswith(prefill):
        return completion
    text, plan = prefill + completion, _plan_in(completion)
    if plan is not None and _plan_in(text) != plan:
        raise ConfigError(
            f"the prefill {prefill!r:.60} changes the plan of the example {completion!r:.60}: write examples "
            "that begin with the prefill, or another prefill"
        )
    return text


def _plan_in(text: str) -> Plan | None:
    try:
        return parse_plan(text, workers=_ANY_WORKERS, max_steps=_ANY_STEPS)
    except PlanError:
        return None
