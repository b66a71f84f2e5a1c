"""`python -m podium_train.tiny.recorded RECORDING`: trains the tiny model on recorded answers.

The model is trained from nothing on single questions and bundles of the recording, and compared with other
ways to plan. A seed takes about fifteen minutes of CPU. Seeds that have a result in the folder are not
trained again.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import anyio
import torch

from podium.errors import PodiumError
from podium_evals.results.pools import read_pool
from podium_train.tiny.recorded.mixed import PARTS, QuestionsAndBundles
from podium_train.tiny.recorded.run import Settings, run
from podium_train.tiny.recorded.world import RecordedWorld


def main() -> int:
    """Run the command; return 1 after an error that can be told in a line."""
    parser = argparse.ArgumentParser(prog="python -m podium_train.tiny.recorded", description=__doc__)
    parser.add_argument("recording", help="a file of recorded answers, or the name of a public recording")
    parser.add_argument("--pool", default="all", help="all, a named pool, or names separated by commas")
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("PODIUM_EVALS_DATA"),
        help="folder with the files of public recordings; default: they are downloaded",
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=PARTS.sizes, help="numbers of workers of a pool"
    )
    parser.add_argument(
        "--held-workers", type=int, default=PARTS.held_workers, help="number of workers that are held out"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="seeds of the runs")
    parser.add_argument("--out", type=Path, default=Path("tiny-recorded"), help="folder of the runs")
    chosen = parser.parse_args()
    torch.set_num_threads(1)  # threads that compete for the cores of a small machine take longer
    settings = Settings()
    try:
        recordings = anyio.run(lambda: read_pool(chosen.recording, chosen.pool, folder=chosen.data))
        drawn = replace(PARTS, sizes=tuple(chosen.sizes), held_workers=chosen.held_workers)
        world = RecordedWorld(QuestionsAndBundles(recordings, drawn, name=Path(chosen.recording).name))
    except PodiumError as error:
        _told(str(error))
        return 1
    for seed in chosen.seeds:
        folder = chosen.out / f"seed-{seed}"
        found = folder / "result.json"
        if not found.exists():
            _told(f"seed {seed}")
            run(world, settings, seed=seed, folder=folder, told=_told)
        result = json.loads(found.read_text(encoding="utf-8"))
        if result["fingerprint"] != settings.fingerprint(world):
            parser.error(f"{found} is a result of other settings or another recording: name another --out")
        print((folder / "report.md").read_text(encoding="utf-8"))  # noqa: T201 - the command's output
    return 0


def _told(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)  # noqa: T201 - progress


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        _told("interrupted: finished seeds are kept, and the same command continues with the others")
        sys.exit(130)
    except OSError as error:
        _told(f"a file cannot be read or written: {error}")
        sys.exit(1)
