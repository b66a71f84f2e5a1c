"""Accuracy of a model on held-out splits."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from accelerate import PartialState
from accelerate.utils import gather_object

from podium_train.guards import HeldOut, accuracy
from podium_train.recipes import Recipe, environment_of, messages_of
from podium_train.rewards import Score, ScoreRequest
from podium_train.trl.generate import Generator


def measure_held_out(
    recipe: Recipe,
    folder: Path,
    generator: Generator,
    score: Callable[[Sequence[ScoreRequest]], list[Score]],
) -> Mapping[str, HeldOut]:
    """Return the accuracy on the splits of `[held_out]`. Each process measures a part of the episodes.

    Args:
        recipe: the settings.
        folder: the folder of the recipe.
        generator: samples the texts.
        score: rewards the texts.
    """
    environment, wanted, state = environment_of(recipe.environment, folder), recipe.held_out, PartialState()
    found: dict[str, HeldOut] = {}
    for split in wanted.splits:
        drawn = environment.episodes(split, wanted.episodes, seed=wanted.seed)
        episodes = drawn[state.process_index :: state.num_processes]
        prompts = [messages_of(recipe.prompt, episode) for episode in episodes]

        def share(*, is_greedy: bool) -> float:
            texts = generator.texts(prompts, is_greedy=is_greedy, seed=wanted.seed)  # noqa: B023 - called here
            pairs = zip(episodes, texts, strict=True)  # noqa: B023 - as above
            scores = score([ScoreRequest(episode=episode, text=text) for episode, text in pairs])
            return accuracy(gather_object(scores))

        found[split] = HeldOut(sampled=share(is_greedy=False), greedy=share(is_greedy=True))
    return found
