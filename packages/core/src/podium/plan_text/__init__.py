"""Plan text to plan and back: parser, writer, JSON schema, grammar, edits."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
