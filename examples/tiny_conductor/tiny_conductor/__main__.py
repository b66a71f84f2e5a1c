"""`python -m tiny_conductor` in `examples/tiny_conductor`: trains a model from nothing and measures it.

A seed takes about fifteen minutes of CPU. Seeds that have a result in the folder are not trained again.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch

from tiny_conductor.report import Report
from tiny_conductor.run import Settings, run


def main() -> int:
    """Run the command; return 1 if the result is below `--at-least`."""
    parser = argparse.ArgumentParser(prog="python -m tiny_conductor", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="seeds of the runs")
    parser.add_argument("--out", type=Path, default=Path("tiny"), help="folder of the runs")
    parser.add_argument(
        "--at-least", type=float, default=0.0, help="lowest accepted mean on held-out mixes, sampled, 0 to 1"
    )
    chosen = parser.parse_args()
    torch.set_num_threads(1)  # threads that compete for the cores of a small machine take longer
    settings = Settings()
    results = []
    for seed in chosen.seeds:
        folder = chosen.out / f"seed-{seed}"
        found = folder / "result.json"
        if not found.exists():
            _told(f"seed {seed}")
            run(settings, seed=seed, folder=folder, told=_told)
        result = json.loads(found.read_text(encoding="utf-8"))
        if result["fingerprint"] != settings.fingerprint:
            parser.error(f"{found} is a result of other settings or another world: name another --out")
        results.append(result)
    report = Report(results)
    print(report.text())
    (chosen.out / "report.md").write_text(report.text() + "\n", encoding="utf-8")
    return int(report.mean("mixes") < chosen.at_least)


def _told(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        _told("interrupted: finished seeds are kept, and the same command continues with the others")
        sys.exit(130)
    except OSError as error:
        _told(f"a file cannot be read or written: {error}")
        sys.exit(1)
