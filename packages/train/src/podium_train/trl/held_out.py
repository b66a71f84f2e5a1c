"""Accuracy of a model on held-out splits."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from accelerate import PartialState
from accelerate.utils import gather_object

from podium.types import Message
from podium_train.environments import Environment, Episode
from podium_train.guards import HeldOut, SecondRounds, WrittenText, accuracy, second_rounds, written_text
from podium_train.recipes import Recipe, environment_of, messages_of
from podium_train.rewards import Score, ScoreRequest
from podium_train.trl.generate import Generator


def measure_held_out(
    recipe: Recipe,
    folder: Path,
    generator: Generator,
    score: Callable[[Sequence[ScoreRequest]], list[Score]],
    heard: Callable[[str, WrittenText], object] = lambda _split, _text: None,
) -> Mapping[str, HeldOut]:
    """Return the accuracy on the splits of `[held_out]`. Each process measures a part of the episodes.

    Args:
        recipe: the settings.
        folder: the folder of the recipe.
        generator: samples the texts.
        score: rewards the texts.
        heard: is given each text of this process, after its split; sampled texts come first.
    """
    environment, wanted, state = environment_of(recipe.environment, folder), recipe.held_out, PartialState()
    found: dict[str, HeldOut] = {}
    for split in wanted.splits:
        drawn = environment.episodes(split, wanted.episodes, seed=wanted.seed)
        episodes = drawn[state.process_index :: state.num_processes]
        how = _Measuring(recipe, environment, generator, score, episodes, partial(heard, split))
        sampled, sampled_second = how.measure(is_greedy=False)
        greedy, greedy_second = how.measure(is_greedy=True)
        found[split] = HeldOut(
            sampled=accuracy(sampled),
            greedy=accuracy(greedy),
            unknown=dict(Counter(score.why_unknown for score in sampled + greedy if score.value is None)),
            sampled_second=sampled_second,
            greedy_second=greedy_second,
        )
    return found


@dataclass(frozen=True, slots=True)
class _Measuring:
    """Measures a model on some episodes."""

    recipe: Recipe
    environment: Environment
    generator: Generator
    score: Callable[[Sequence[ScoreRequest]], list[Score]]
    episodes: Sequence[Episode]
    heard: Callable[[WrittenText], object]

    def measure(self, *, is_greedy: bool) -> tuple[list[Score], SecondRounds | None]:
        """Return the scores of first rounds, and what second rounds change if the prompt has two."""
        ask, seed = partial(messages_of, self.recipe, self.environment), self.recipe.held_out.seed
        prompts = [ask(episode) for episode in self.episodes]
        texts = self._texts(prompts, is_greedy=is_greedy, seed=seed)
        firsts = [
            ScoreRequest(episode=episode, text=text)
            for episode, text in zip(self.episodes, texts, strict=True)
        ]
        scores = self._scores(firsts)
        if self.recipe.prompt.style.rounds == 1:
            return gather_object(scores), None
        able = [at for at, score in enumerate(scores) if score.answer]
        prompts = [ask(self.episodes[at], (texts[at], scores[at].answer)) for at in able]
        seconds = self._texts(prompts, is_greedy=is_greedy, seed=seed + 1)
        found = self._scores(
            [
                replace(firsts[at], text=text, earlier=texts[at])
                for at, text in zip(able, seconds, strict=True)
            ]
        )
        found, scores = gather_object(found), gather_object(scores)
        others = [score for score in scores if not score.answer]
        return scores, second_rounds(found, others)

    def _scores(self, requests: Sequence[ScoreRequest]) -> list[Score]:
        scores = self.score(requests)
        for each, score in zip(requests, scores, strict=True):
            self.heard(written_text(each.episode, each.text, score, earlier=each.earlier))
        return scores

    def _texts(self, prompts: Sequence[Sequence[Message]], *, is_greedy: bool, seed: int) -> list[str]:
        prefill = self.recipe.prompt.style.prefill
        return [prefill + text for text in self.generator.texts(prompts, is_greedy=is_greedy, seed=seed)]
