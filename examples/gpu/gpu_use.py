"""Samples how busy the GPU is while a block runs, with `nvidia-smi`."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from statistics import fmean
from threading import Thread
from types import TracebackType

MILLISECONDS = 200
"""Time between samples."""
QUERY = ["nvidia-smi", "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits"]


class GpuUse:
    """Appends samples of the first visible GPU to a file; without `nvidia-smi` it writes none.

    Args:
        path: the file, with a line of JSON for each sample.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sampler: subprocess.Popen[str] | None = None
        self._thread: Thread | None = None

    def __enter__(self) -> None:
        """Start to sample."""
        if shutil.which(QUERY[0]) is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip() or "0"
        self._sampler = subprocess.Popen(  # noqa: S603 - our own words
            [*QUERY, f"--id={first}", f"--loop-ms={MILLISECONDS}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._thread = Thread(target=self._write, args=(self._sampler,), daemon=True)
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""
        if self._sampler is None or self._thread is None:
            return
        self._sampler.kill()  # it only reads
        self._sampler.wait()
        self._thread.join(timeout=10)

    def _write(self, sampler: "subprocess.Popen[str]") -> None:
        assert sampler.stdout is not None
        with sampler.stdout, self._path.open("a", encoding="utf-8") as file:
            for line in sampler.stdout:
                try:
                    busy, memory = map(float, line.split(","))
                except ValueError:  # a GPU in parts (MIG) has no utilization: "[N/A]"
                    continue
                file.write(json.dumps({"busy": busy, "memory_mib": memory}) + "\n")
                file.flush()

    @staticmethod
    def told(path: Path) -> str:
        """Return the idle share and the highest memory of a file; a line cut by a kill is left out."""
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        samples = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
        if not samples:
            return "GPU not measured"
        idle = 1 - fmean(sample["busy"] for sample in samples) / 100
        memory = max(sample["memory_mib"] for sample in samples) / 1024
        return f"GPU idle {idle:.0%} of the time, at most {memory:.1f} GiB"
