"""Workers behind an OpenAI-compatible HTTP API."""
