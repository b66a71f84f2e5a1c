"""A model in the form of Codex's list of models.

Codex rejects a list in which an entry lacks a field, or has an unknown reasoning effort. It gives the
instructions of an entry to the model in place of its own, and an entry must have instructions.
"""

from typing import Any

from podium_server.models import ServedModel

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
"""The efforts that all versions of Codex know."""
_TOOL_OUTPUT_BYTES = 10_000
"""Length to which Codex cuts the output of a tool; its own value for unknown models."""


def codex_form(model: ServedModel, instructions: str, priority: int) -> dict[str, Any]:
    """Return the entry of a model.

    Args:
        model: the model.
        instructions: given to the model by Codex.
        priority: the place of the model in the list of Codex, from 0.
    """
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
