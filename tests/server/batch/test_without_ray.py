"""`podium batch --ray` in an environment without Ray; `make test-ray` runs batches on a cluster."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from server.batch.conftest import Batch, write


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray(folder: Path, batch: Batch) -> None:
    """The error says how to install it; nothing is run."""
    write(folder / "in.jsonl", [{"query": "question"}])
    assert "podium-server[ray]" in batch("in.jsonl", "--ray", "local", code=2).stderr
