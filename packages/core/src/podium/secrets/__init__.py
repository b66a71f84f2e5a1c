"""What may be shown nowhere, and taking it out of text."""

from podium.secrets.redact import register, scrub, scrub_data, scrub_error, scrubbing

__all__ = ["register", "scrub", "scrub_data", "scrub_error", "scrubbing"]
