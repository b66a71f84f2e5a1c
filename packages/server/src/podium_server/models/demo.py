"""The config of a server without a `podium.toml`: workers that need no model, key or network."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from podium.config import Config, load_config

_DEMO = Path(__file__).parent / "demo"


@contextmanager
def demo_config() -> Iterator[Config]:
    """Yield the config of the offline demo.

    Its folder, with its journal and API keys, is a temporary folder, which the end of the block deletes.
    """
    with TemporaryDirectory(prefix="podium-demo-", ignore_cleanup_errors=True) as folder:
        shutil.copytree(_DEMO, folder, dirs_exist_ok=True)
        yield load_config(Path(folder) / "podium.toml")
