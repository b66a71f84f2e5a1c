"""The measurements of the script for one GPU; `nvidia-smi` is a script of the test."""

import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "gpu"))

from gpu_use import GpuUse
from speed import speed_line


def _nvidia_smi(folder: Path, body: str) -> None:
    """Write a script in place of `nvidia-smi`, which keeps its arguments."""
    file = folder / "nvidia-smi"
    file.write_text(f'#!/bin/sh\necho "$@" > "{folder}/arguments"\n{body}\n', encoding="utf-8")
    file.chmod(0o755)


def _measured(tmp_path: Path, *, lines: int) -> str:
    """Sample until the file has some lines; return what is told."""
    path = tmp_path / "run" / "gpu.jsonl"
    with GpuUse(path):
        ends = time.monotonic() + 20
        while (
            lines
            and time.monotonic() < ends
            and (not path.exists() or len(path.read_text(encoding="utf-8").splitlines()) < lines)
        ):
            time.sleep(0.02)
    return GpuUse.told(path)


def test_the_idle_share_is_of_the_first_visible_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples without a figure are left out, and the sampler ends with the block."""
    _nvidia_smi(tmp_path, "echo '25, 1024'\necho '[N/A], 2'\necho '75, 2048'\nexec sleep 60")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    assert _measured(tmp_path, lines=2) == "GPU idle 50% of the time, at most 2.0 GiB"
    assert "--id=3 " in (tmp_path / "arguments").read_text(encoding="utf-8")


def test_nothing_is_measured_without_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report says so."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _measured(tmp_path, lines=0) == "GPU not measured"


def test_a_line_cut_by_a_kill_is_left_out(tmp_path: Path) -> None:
    """The other samples count."""
    path = tmp_path / "gpu.jsonl"
    path.write_text('{"busy": 90.0, "memory_mib": 512.0}\n{"busy": 1', encoding="utf-8")
    assert GpuUse.told(path) == "GPU idle 10% of the time, at most 0.5 GiB"


def test_the_rate_is_without_the_first_step_and_steps_without_duration() -> None:
    """Start-up and evaluations do not count."""
    assert speed_line("a", [50.0, 2.0, None, 4.0], 12, "g") == "a: 4 steps, 4.00 rollouts/s, g"
    assert speed_line("a", [50.0], 12, "g") == "a: 1 steps, too few steps for a rate, g"
