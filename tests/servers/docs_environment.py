"""The environment variables for the examples of the documentation."""

from pathlib import Path

_KEYS = ("LLM_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "FUGU_API_KEY", "VLLM_API_KEY")


def docs_environment(url: str, home: Path) -> dict[str, str]:
    """Return the variables for examples: the server, keys, and folders for state in `home`."""
    return {
        "LLM_URL": url,
        **dict.fromkeys(("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GEMINI_BASE_URL"), url),
        **dict.fromkeys(_KEYS, "key-of-a-loopback-server"),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_DATA_HOME": str(home / "data"),
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_TRACING_ENABLED": "false",
    }
