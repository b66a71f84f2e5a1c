"""Workers that need no model and no network."""
