"""Puts current models into a preset: asks the endpoints whose keys are in the environment."""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

import anyio

from podium.errors import PodiumError
from podium.workers.openai.endpoint import Endpoint
from podium.workers.openai.model_list import choose_model, list_models
from podium.workers.openai.providers import find_provider

SECONDS = 10.0
"""Timeout for all lists of models together, in seconds."""
_BLOCK = re.compile(r"^(?=\[)", re.MULTILINE)
_MODEL = re.compile(r"^model = .*$", re.MULTILINE)
_WORKER = re.compile(r'^worker = "\w+"', re.MULTILINE)
_LINE = re.compile(r"^(?=[^#\n])", re.MULTILINE)


@dataclass(slots=True)
class Proposal:
    """An endpoint of a preset, and the model proposed for it."""

    endpoint: str
    base_url: str
    key_env: str
    model: str | None = None
    """`None` if no model was found."""
    problem: str = "not asked"
    """Why there is no model."""


def propose_models(preset: str, environ: Mapping[str, str] = os.environ) -> tuple[str, list[Proposal]]:
    """Return a preset with a model for each endpoint that lists chat models, and the proposals.

    The endpoints are asked concurrently. If any endpoint has a model, endpoints without a model are
    commented out, with their workers.

    Args:
        preset: the text of a config.
        environ: the environment variables.
    """
    whole = tomllib.loads(preset)
    tables = whole.get("endpoints", {})
    proposals = {name: Proposal(name, table["base_url"], table["key_env"]) for name, table in tables.items()}
    anyio.run(_ask_all, list(proposals.values()), tables, environ)
    able = (name for name, worker in whole["workers"].items() if proposals[worker["endpoint"]].model)
    planner = next(able, None)
    blocks = [_filled(block, proposals, planner) for block in _BLOCK.split(preset)]
    return "".join(blocks), list(proposals.values())


async def _ask_all(
    proposals: list[Proposal], tables: Mapping[str, Mapping[str, str]], environ: Mapping[str, str]
) -> None:
    async with anyio.create_task_group() as asking:
        for proposal in proposals:
            if key := environ.get(proposal.key_env, "").strip():
                asking.start_soon(_ask, proposal, tables[proposal.endpoint]["provider"], key)
            else:
                proposal.problem = f"{proposal.key_env} is not set"


async def _ask(proposal: Proposal, provider: str, key: str) -> None:
    row = find_provider(provider)
    headers = {**row.list_headers, **({row.key_header: key} if row.key_header else {})}
    try:
        endpoint = Endpoint(proposal.base_url, api_key=key, provider=row, headers=headers)
        listed = await list_models(endpoint, deadline=anyio.current_time() + SECONDS)
    except PodiumError as error:
        proposal.problem = str(error)
        return
    proposal.model = choose_model(listed, proposal.base_url)
    proposal.problem = "it lists no chat model"


def _filled(block: str, proposals: Mapping[str, Proposal], planner: str | None) -> str:
    """Return a table of the preset with its model; commented out if its endpoint has no model.

    Args:
        block: the text of the table, and of the comments after it.
        proposals: the proposals by endpoint.
        planner: the worker that plans; `None` if no model was found, which leaves the table unchanged.
    """
    tables = tomllib.loads(block)
    if planner is None:
        return block
    if "planner" in tables:
        return _WORKER.sub(f'worker = "{planner}"', block)
    for kind in ("endpoints", "workers"):
        for name, table in tables.get(kind, {}).items():
            proposal = proposals[table.get("endpoint", name)]
            if proposal.model is None:
                return _LINE.sub("# ", block)
            return _MODEL.sub(f'model = "{proposal.model}"', block)
    return block
