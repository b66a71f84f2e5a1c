"""Workers that are LlamaIndex objects."""
