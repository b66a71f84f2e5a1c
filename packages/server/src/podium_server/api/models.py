"""The list of models: OpenAI's form, the form of Codex, and Anthropic's form."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from podium_server.api.codex_models import codex_form
from podium_server.http import Exchange
from podium_server.keys import Caller
from podium_server.models import Catalogue, ModelUnknown, ServedModel


class ModelsApi:
    """`GET /v1/models` and `GET /v1/models/{model}`.

    Args:
        catalogue: the models.
    """

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
        if _is_codex(exchange):
            listed["models"] = [
                codex_form(model, model.codex_instructions, number)
                for number, model in enumerate(models)
                if model.codex_instructions is not None
            ]
        await exchange.json(listed)

    async def show(self, exchange: Exchange, caller: Caller) -> None:
        """Show one model.

        Raises:
            ModelUnknown: the caller may call no model with this name.
        """
        name = str(exchange.path_params["model"])
        model = self._catalogue.find(name)
        if not caller.may_call(model.name):
            raise ModelUnknown(f"the model {name!r:.200} does not exist, or your API key may not call it")
        await exchange.json(_anthropic_form(model) if _is_anthropic(exchange) else _openai_form(model))


def _is_anthropic(exchange: Exchange) -> bool:
    """Return whether the client uses Anthropic's API."""
    return exchange.header("anthropic-version") is not None


def _is_codex(exchange: Exchange) -> bool:
    """Return whether the client is Codex, which sends its version and reads the key `models`."""
    return "client_version" in parse_qs(exchange.query, keep_blank_values=True)


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
