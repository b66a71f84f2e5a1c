"""Workers that call an OpenAI-compatible HTTP API."""
