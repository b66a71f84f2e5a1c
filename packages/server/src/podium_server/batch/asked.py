"""What a command of `podium batch` asks for, and the checks of it."""

import re
from dataclasses import dataclass
from pathlib import Path

from podium.errors import ConfigError
from podium_server.models import Catalogue

_ENDINGS = (".jsonl", ".ndjson")
"""Endings of results and failures."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The arguments of the command."""

    questions: Path
    out: Path
    failures: Path | None
    name: str
    model: str | None
    concurrency: int
    ray: str | None
    budget: float | None
    max_cost: float | None
    retries: bool
    quiet: bool

    def check_files(self) -> None:
        """Raise `ConfigError` if two files are the same, or an ending is unknown."""
        targets = [each for each in (self.out, self.failures) if each is not None]
        for target in targets:
            if target.suffix not in _ENDINGS:
                told = f"{target} has no ending of a file that podium batch writes"
                raise ConfigError(f"{told}: choose a name with {' or '.join(_ENDINGS)}")
        files = [self.questions, *targets]
        if len({file.resolve() for file in files}) < len(files):
            told = "the input, the results and the failures need different files"
            raise ConfigError(f"{told}: choose another --out or --failures")

    def check_prices(self, catalogue: Catalogue) -> None:
        """Raise `ConfigError` if the budget cannot be kept: a run without a limit, or an unknown price."""
        for model in catalogue:
            conductor = model.conductor
            limits, unpriced = conductor.limits, ", ".join(conductor.unpriced)
            if self.budget is not None and self.max_cost is None and limits.cost is None:
                told = f"--budget needs a cost limit of each run, and the model {model.name} has none"
                raise ConfigError(f"{told}: add --max-cost, or set cost in [limits]")
            if self.max_cost is not None and limits.unpriced is None and unpriced:
                told = f"--max-cost needs prices, and the price of {unpriced} is unknown"
                raise ConfigError(f"{told}: set `price`, or `unpriced` in [limits]")


def batch_name(named: str | None, questions: Path) -> str:
    """Return the name of the batch: the given name, or the name of the input without its ending."""
    name = named or re.sub(r"[^A-Za-z0-9._-]+", "-", questions.stem).strip("._-") or "batch"
    if not _NAME.fullmatch(name):
        form = "up to 100 letters, digits, `.`, `_` and `-`, with a letter or digit first"
        raise ConfigError(f"--name {name!r:.80} is invalid: write {form}")
    return name


def results_of(questions: Path) -> Path:
    """Return the default file of the results."""
    if questions.is_dir():
        raise ConfigError(f"{questions} cannot be read: it is a folder")
    return questions.with_suffix(".results.jsonl")
