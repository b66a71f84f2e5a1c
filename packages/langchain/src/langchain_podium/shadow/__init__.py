"""`shadow`: a Runnable stays in production while a candidate runs beside it on a sample of its requests.

Needs podium-shadow, which the extra `langchain-podium[shadow]` brings.
"""

from podium.installing import install_hint

try:
    from langchain_podium.shadow.runnable import Shadow, shadow
except ModuleNotFoundError as error:
    if error.name != "podium_shadow":
        raise
    raise ImportError(f"langchain_podium.shadow needs podium-shadow: {install_hint('shadow')}") from error

__all__ = ["Shadow", "shadow"]
