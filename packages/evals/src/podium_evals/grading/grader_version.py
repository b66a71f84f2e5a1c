"""The version of a grader, for what keeps its scores."""

import sys
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_LIBRARIES = ("math-verify", "reasoning-gym")
"""Libraries that score answers."""


def grader_version(name: str | None = None) -> str:
    """Return a digest of the code that scores answers; it changes whenever that code changes.

    Args:
        name: the name of a grader that `find_grader` has found. For `MODULE:FUNCTION`, the file of the module
            is part of the digest, but not what it imports. All other names have the same version, the one
            of Podium's graders and their libraries.
    """
    digest = sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    for library in _LIBRARIES:
        try:
            digest.update(f"{library} {version(library)}".encode())
        except PackageNotFoundError:
            continue
    module, colon, _ = (name or "").partition(":")
    file = sys.modules[module].__file__ if colon else None
    if file is not None:
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()[:16]
