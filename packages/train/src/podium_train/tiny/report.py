"""The table of finished runs: means over seeds, beside the baselines on the same episodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from podium_evals.statistics import Resampling, interval_of_mean

COLUMNS = ("sampled", "by seed", "greedy", "of oracle", "rule", "over rule", "best single", "random", "valid")


@dataclass(frozen=True, slots=True)
class Report:
    """The results of some seeds.

    Args:
        results: what `podium_train.tiny.run.run` wrote to `result.json`, one for each seed.
    """

    results: Sequence[Mapping[str, Any]]

    def mean(self, held: str, grades: str = "sampled") -> float:
        """Return the mean grade on a set of episodes over all seeds."""
        return fmean(fmean(result["held_out"][held][grades]) for result in self.results)

    def text(self) -> str:
        """Return the report as Markdown."""
        rows = [f"| held out | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
        rows += [self._row(held) for held in self.results[0]["held_out"]]
        return "\n".join((*rows, "", self._kinds(), self._entropy(), self._cost()))

    def over_rule(self, held: str) -> tuple[float, float, float]:
        """Return the mean difference to the fair keyword rule, and its 95 % interval over episodes."""
        runs = [result["held_out"][held] for result in self.results]
        means = [fmean(grades) for grades in zip(*(run["sampled"] for run in runs), strict=True)]
        rule = runs[0]["baselines"]["fair keyword rule"]
        found = interval_of_mean(
            [ours - theirs for ours, theirs in zip(means, rule, strict=True)], Resampling(runs[0]["kinds"])
        )
        return found.mean, found.low, found.high

    def _row(self, held: str) -> str:
        runs = [result["held_out"][held] for result in self.results]
        seeds = [fmean(run["sampled"]) for run in runs]
        baselines = {name: fmean(grades) for name, grades in runs[0]["baselines"].items()}
        spread = f" ± {stdev(seeds):.3f}" if len(seeds) > 1 else ""
        gain, low, high = self.over_rule(held)
        cells = (
            f"{fmean(seeds):.3f}{spread}",
            " ".join(f"{seed:.3f}" for seed in seeds),
            f"{self.mean(held, 'greedy'):.3f}",
            f"{fmean(seeds) / baselines['oracle']:.3f} ({baselines['oracle']:.3f})",
            f"{baselines['fair keyword rule']:.3f}",
            f"{gain:+.3f} ({low:+.3f} … {high:+.3f})",
            f"{baselines['best single']:.3f}",
            f"{baselines['random plan']:.3f}",
            f"{fmean(run['valid'] for run in runs):.3f}",
        )
        return f"| {held} | {' | '.join(cells)} |"

    def _kinds(self) -> str:
        held = next(iter(self.results[0]["held_out"]))
        runs = [result["held_out"][held] for result in self.results]
        kinds = runs[0]["kinds"]

        def means(series: Sequence[Sequence[float]]) -> dict[str, float]:
            return {
                kind: fmean(grades[at] for grades in series for at, of in enumerate(kinds) if of == kind)
                for kind in sorted(set(kinds))
            }

        ours, oracle = means([run["sampled"] for run in runs]), means([runs[0]["baselines"]["oracle"]])
        return "By kind (oracle): " + ", ".join(
            f"{kind} {ours[kind]:.3f} ({oracle[kind]:.3f})" for kind in ours
        )

    def _entropy(self) -> str:
        held = next(iter(self.results[0]["held_out"]))
        runs = [result["held_out"][held] for result in self.results]
        ours = " ".join(f"{run['entropy']:.2f}" for run in runs)
        return f"Entropy of the workers: {ours}; oracle {runs[0]['oracle_entropy']:.2f} nats"

    def _cost(self) -> str:
        told = []
        for result in self.results:
            parts = ", ".join(f"{name} {seconds:.0f}" for name, seconds in result["cpu_s"].items())
            stopped = f"; {result['stopped']}" if result["stopped"] else ""
            start = fmean(result["start"]["sampled"])
            told.append(
                f"Seed {result['seed']}: CPU seconds {parts}; after the warm start {start:.3f}; "
                f"best update {result['best']}{stopped}"
            )
        return "\n".join(told)
