"""`shadow`: run a candidate in parallel to a production Runnable, on a sample of its requests.

Requires podium-shadow, which the extra `langchain-podium[shadow]` installs.
"""

from podium.errors import install_hint

try:
    from langchain_podium.shadow.runnable import Shadow, ShadowGraph, shadow
except ModuleNotFoundError as error:
    if error.name != "podium_shadow":
        raise
    raise ImportError(
        f"langchain_podium.shadow needs podium-shadow: {install_hint('podium-shadow')}"
    ) from error

__all__ = ["Shadow", "ShadowGraph", "shadow"]
