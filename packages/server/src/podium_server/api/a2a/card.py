"""The card of a model as an A2A agent."""

from typing import Any

from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict

from podium.a2a import ACTS_EXTENSION
from podium_server.models import ServedModel

INPUTS = ("text/plain", "application/json")


def card_of(model: ServedModel, url: str, *, needs_key: bool) -> AgentCard:
    """Return the card of a model.

    Args:
        model: the model.
        url: its URL.
        needs_key: whether clients need an API key.
    """
    described = model.description or f"Answers questions, as the model {model.name}."
    skill = {"id": "ask", "name": model.name, "description": described, "tags": ["question", "answer"]}
    versions = ("1.0", "0.3")
    card: dict[str, Any] = {
        "name": model.name,
        "description": described,
        "version": model.version,
        "supportedInterfaces": [
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version} for version in versions
        ],
        "capabilities": {
            "streaming": True,
            "extensions": [{"uri": ACTS_EXTENSION, "params": {"acts": model.conductor.acts}}],
        },
        "defaultInputModes": list(INPUTS),
        "defaultOutputModes": ["text/plain"],
        "skills": [skill],
    }
    if needs_key:
        card["securitySchemes"] = {"key": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
        card["securityRequirements"] = [{"schemes": {"key": {}}}]
    made: AgentCard = ParseDict(card, AgentCard())
    return made


def card_json(card: AgentCard) -> dict[str, Any]:
    """Return a card as JSON, with the fields of the versions 1.0 and 0.3 of the protocol."""
    return agent_card_to_dict(card)
