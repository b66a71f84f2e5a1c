"""Lists the models, also in the forms of Anthropic's API and of Codex."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from podium_server.http import Exchange
from podium_server.keys import Caller
from podium_server.models import Catalogue, ModelUnknown, ServedModel

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
"""The efforts that all versions of Codex know."""
_TOOL_OUTPUT_BYTES = 10_000
"""Length to which Codex cuts the output of a tool; its own value for unknown models."""


def codex_form(model: ServedModel, instructions: str, priority: int) -> dict[str, Any]:
    """Return the entry of a model."""
    efforts = [effort for effort in _EFFORTS if effort in model.efforts]
    windows = [card.context_window for card in model.cards if card.context_window is not None]
    takes_images = any("image_url" in card.parts for card in model.cards)
    return {
        "slug": model.name,
        "display_name": model.name,
        "description": model.description,
        "default_reasoning_level": efforts[-1] if efforts else None,
        "supported_reasoning_levels": [{"effort": effort, "description": effort} for effort in efforts],
        "shell_type": "shell_command",
        "visibility": "list",
        "supported_in_api": True,
        "priority": priority,
        "upgrade": None,
        "base_instructions": instructions,
        "supports_reasoning_summaries": model.show != "none",
        "support_verbosity": False,
        "default_verbosity": None,
        "apply_patch_tool_type": None,
        "truncation_policy": {"mode": "bytes", "limit": _TOOL_OUTPUT_BYTES},
        "supports_parallel_tool_calls": True,
        "context_window": min(windows, default=None),
        "experimental_supported_tools": [],
        "input_modalities": ["text", "image"] if takes_images else ["text"],
    }


class ModelsApi:
    """`GET /v1/models` and `GET /v1/models/{model}`."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def list(self, exchange: Exchange, caller: Caller) -> None:
        """List the models that the caller may call."""
        models = [model for model in self._catalogue if caller.may_call(model.name)]
        if _is_anthropic(exchange):
            entries = [_anthropic_form(model) for model in models]
            ends = {"first_id": entries[0]["id"], "last_id": entries[-1]["id"]} if entries else {}
            await exchange.json(
                {"data": entries, "has_more": False, "first_id": None, "last_id": None, **ends}
            )
            return
        data = [_openai_form(model) for model in models]
        listed: dict[str, Any] = {"object": "list", "data": data}
        if "client_version" in parse_qs(
            exchange.query, keep_blank_values=True
        ):  # Codex, which reads `models`
            listed["models"] = [
                codex_form(model, model.codex_instructions, number)
                for number, model in enumerate(models)
                if model.codex_instructions is not None
            ]
        await exchange.json(listed)

    async def show(self, exchange: Exchange, caller: Caller) -> None:
        """Show one model."""
        name = str(exchange.path_params["model"])
        model = self._catalogue.find(name)
        if not caller.may_call(model.name):
            raise ModelUnknown(f"the model {name!r:.200} does not exist, or your API key may not call it")
        await exchange.json(_anthropic_form(model) if _is_anthropic(exchange) else _openai_form(model))


def _is_anthropic(exchange: Exchange) -> bool:
    """Return whether the client uses Anthropic's API."""
    return exchange.header("anthropic-version") is not None


def _anthropic_form(model: ServedModel) -> dict[str, Any]:
    created = datetime.fromtimestamp(model.created, UTC).isoformat().replace("+00:00", "Z")
    return {"type": "model", "id": model.name, "display_name": model.name, "created_at": created}


def _openai_form(model: ServedModel) -> dict[str, Any]:
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "podium",
        "description": model.description,
        "version": model.versioned_id,
        "workers": list(model.workers),
        "efforts": list(model.efforts),
        "podium": {"acts": model.conductor.acts, "parameters": model.parameters},
    }
