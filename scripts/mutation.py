"""Mutation testing: changes the code of five folders of core, and counts the changes that no test detects.

    uv run python -m scripts.mutation [--sample 400] [--seed 0] [--processes 2] [NAME ...]

mutmut creates the mutants, finds the tests that reach each mutant, and runs these tests. `[tool.mutmut]` in
`pyproject.toml` names the folders and the tests. Running all mutants would take hours, so the script runs a
sample with equally many mutants of each module, if it has so many. Names (or shell patterns) select mutants
instead of the sample.

mutmut reads only packages in `src/`, and writes into `mutants/` beside it. `.mutation/` is a folder of links
with this layout, and keeps the mutants: `cd .mutation && ../.venv/bin/mutmut show NAME`.
"""

import argparse
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir
from itertools import chain, zip_longest
from pathlib import Path
from shutil import rmtree

from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import walk_mutatable_files
from mutmut.utils.format_utils import get_mutant_name

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".mutation"
LINKS = {"src": "packages/core/src", "tests": "tests", "pyproject.toml": "pyproject.toml"}
STATUSES = ("killed", "timeout", "survived", "no tests")


def main() -> int:
    """Run a sample of mutants.

    Returns:
        1 if the score is below `--at-least` or mutmut failed; otherwise 0.
    """
    arguments = _arguments()
    _make_folder()
    with chdir(FOLDER):
        names = arguments.names or _sample(arguments.sample, arguments.seed)
        mutmut = Path(sys.executable).with_name("mutmut")
        command = [mutmut, "run", f"--max-children={arguments.processes}", *names]
        done = subprocess.run(command, check=False)  # noqa: S603 - our own tool and names
        results = dict(_results())
    for name, status in sorted(results.items()):
        if status != "killed":
            print(f"{status}: {name}")
    score = _print_table(results)
    return int(done.returncode != 0 or score < arguments.at_least)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sample", type=int, default=400, help="number of mutants (default: 400)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample (default: 0)")
    parser.add_argument("--processes", type=int, default=2, help="concurrent mutants (default: 2)")
    parser.add_argument("--at-least", type=float, default=0, help="minimum score, in percent (default: 0)")
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants to run instead of a sample")
    return parser.parse_args()


def _make_folder() -> None:
    if FOLDER.exists():
        rmtree(FOLDER)
    FOLDER.mkdir()
    for name, target in LINKS.items():
        (FOLDER / name).symlink_to(ROOT / target)


def _sample(number: int, seed: int) -> list[str]:
    """Select mutants from all modules in turn, in random order within a module."""
    chance = random.Random(seed)  # noqa: S311 - not a secret
    modules: list[list[str]] = []
    for path in sorted(walk_mutatable_files()):
        names = mutate_file_contents(str(path), path.read_text()).mutant_names
        modules.append(chance.sample([get_mutant_name(path, name) for name in names], len(names)))
    in_turn = chain.from_iterable(zip_longest(*modules))
    return [name for name in in_turn if name is not None][:number]


def _results() -> Iterator[tuple[str, str]]:
    """Yield the name and the status of each mutant that ran."""
    for path in walk_mutatable_files():
        codes = json.loads(Path("mutants", f"{path}.meta").read_text())["exit_code_by_key"]
        for name, code in codes.items():
            if code is not None:
                yield name, status_by_exit_code[code]


def _print_table(results: dict[str, str]) -> float:
    """Print one line for each folder.

    Returns:
        The percentage of mutants that were killed or timed out.
    """
    folders: dict[str, Counter[str]] = {}
    for name, status in results.items():
        folders.setdefault(name.split(".")[1], Counter())[status] += 1
    print("folder", *STATUSES, "other", "score", sep=" | ")
    for folder, counts in sorted(folders.items()):
        _print_row(folder, counts)
    return _print_row("all", sum(folders.values(), Counter()))


def _print_row(title: str, counts: Counter[str]) -> float:
    other = counts.total() - sum(counts[status] for status in STATUSES)
    score = 100 * (counts["killed"] + counts["timeout"]) / max(1, counts.total())
    print(title, *(counts[status] for status in STATUSES), other, f"{score:.1f} %", sep=" | ")
    return score


if __name__ == "__main__":
    sys.exit(main())
