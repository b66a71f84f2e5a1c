"""The command that installs an extra or a package of this project from a clone."""

import sys
from pathlib import Path


def install_hint(package: str) -> str:
    """Return a command that installs a package into the environment of this process.

    The command uses `uv tool` or pipx in their environments, which have no pip.

    Args:
        package: the package's folder in `packages/`, with optional extras, as in `core[offline]`.
    """
    wanted, is_core = f"'./packages/{package}'", package.partition("[")[0] == "core"
    environment = Path(sys.prefix)
    if (environment / "uv-receipt.toml").is_file():
        run = f"uv tool install --force {wanted if is_core else f'./packages/core --with {wanted}'}"
    elif (environment / "pipx_metadata.json").is_file():
        run = f"pipx install --force {wanted}" if is_core else f"pipx inject podium-conductor {wanted}"
    else:
        run = f"pip install {wanted}"
    return f"run `{run}` in a clone of Podium"
