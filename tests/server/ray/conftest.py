"""A Ray cluster on this machine, and batches of real commands on it; `make test-ray` has the environment."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ray.cluster_utils import Cluster
from server.batch import conftest as batches
from server.batch.conftest import command

folder = batches.folder
OnRay = Callable[..., tuple[int, str]]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A cluster of one node."""
    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    yield started
    started.shutdown()


@pytest.fixture
def on_ray(cluster: Any, folder: Path) -> OnRay:
    """Return a function that runs a batch on the cluster, and returns its exit code and its stderr."""

    def run(*words: str, address: str | None = None) -> tuple[int, str]:
        arguments = command(folder, *words, "--ray", address or cluster.address)
        done = subprocess.run(**arguments, stderr=subprocess.PIPE, timeout=120, check=False)
        return done.returncode, done.stderr

    return run
