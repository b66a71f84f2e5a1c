"""The messages of an episode are those of production; disguised cards."""

import json
import subprocess
import sys
from dataclasses import replace
from random import Random
from typing import Any

import anyio
import pytest
from scored_world import RATE

from podium import Card, ChatPlanner, Conductor, Limits, Price, ScriptedWorker
from podium.errors import PlannerError
from podium_evals.recorded import Vote
from podium_train import Episode, PromptStyle, fingerprint, messages
from podium_train.environments.episodes import disguised

CARDS = (
    Card(name="small", description="Adds.", price=Price(input=1, output=2), measured=(RATE,)),
    Card(name="large"),
)
SHOWN = Episode(question="What is 2 + 2?", cards=CARDS, workers=("a", "b"), kind="sums")
ALONE = replace(
    SHOWN,
    cards=(*CARDS, Vote().card),
    workers=("a", "b", "vote"),
    texts=(("part_1", "What is 2 + 2?"),),
    shows_question=False,
    fills=(2,),
)
STYLES = [
    PromptStyle(),
    PromptStyle(spelling="rows"),
    PromptStyle(show="ordinals", examples=0),
    PromptStyle(spelling="json", max_steps=3, examples=1),
    PromptStyle(prefill="Let us see."),
    PromptStyle(reasons=True),
    PromptStyle(reasons=True, spelling="rows"),
]


def asked_in_production(episode: Episode, style: PromptStyle) -> object:
    """Return the messages that a conductor sends to its planner's model."""
    model = ScriptedWorker("model", "no plan")
    workers = [ScriptedWorker(card, "ok") for card in episode.cards if card.name != "vote"]
    workers += [Vote()] if episode.fills else []
    own: Any = {name: getattr(style, name) for name in ("spelling", "show", "examples", "reasons")}
    options: Any = {"limits": Limits(plan_steps=style.max_steps), "show_question": episode.shows_question}
    conductor = Conductor(ChatPlanner(model, **own), workers, **options)

    async def plan() -> None:
        with pytest.raises(PlannerError):
            await conductor.plan(episode.question, context=dict(episode.texts))

    anyio.run(plan)
    return model.requests[0].messages


@pytest.mark.parametrize("style", STYLES)
def test_the_messages_are_those_of_a_run(style: PromptStyle) -> None:
    """With cards, rates, prices, hidden questions, named texts and workers that read no prose."""
    for episode in (SHOWN, ALONE):
        assert messages(episode, style) == asked_in_production(episode, style)


def test_episodes_differ_by_all_that_the_conductor_reads() -> None:
    """A rate, a price and a named text each change the key, by which rewards are cached."""
    others = [
        {"cards": (replace(CARDS[0], measured=()), CARDS[1])},
        {"cards": (replace(CARDS[0], price=None), CARDS[1])},
        {"texts": (("part_1", "?"),)},
        {"shows_question": False},
        {"fills": (0,)},
    ]
    assert len({each.key for each in (SHOWN, *(replace(SHOWN, **other) for other in others))}) == 6


def test_fingerprints_differ_by_style_and_not_by_process() -> None:
    """A fingerprint is stored with an export and compared when it is served."""
    prints = [fingerprint(style) for style in STYLES]
    assert len(set(prints)) == len(STYLES)
    code = "from podium_train import *; print(fingerprint(PromptStyle()))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == prints[0]


def test_the_fingerprint_changes_with_each_text_of_the_prompt() -> None:
    """A word more in any of the planner's texts is another prompt."""
    code = (
        "import sys, json, podium.prompts.prompt as render\n"
        "from podium_train import PromptStyle, fingerprint\n"
        "read, name = render.read_prompt, sys.argv[1]\n"
        "def changed(file):\n"
        "    text = read(file)\n"
        "    if file != name: return text\n"
        "    return text.replace('violin', 'cello') if file.endswith('json') else 'Really. ' + text\n"
        "render.read_prompt = changed\n"
        "import podium.planners.chat as prompt\n"
        "prompt.read_prompt = changed\n"
        "print(json.dumps(fingerprint(PromptStyle())))\n"
    )
    found = {fingerprint(PromptStyle())}
    for file in ("conductor.txt", "examples.json"):
        run = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, check=True)
        found.add(json.loads(run.stdout))
    assert len(found) == 3


NAMES = ["a", "b", "c", "d"]


def test_disguised_cards_tell_neither_name_nor_exact_price() -> None:
    """Pseudonyms differ between episodes; prices stay near the real ones."""
    cards = [Card(name=name, description=name, price=Price(input=3, output=15)) for name in NAMES]
    first, second = disguised(cards, Random(1)), disguised(cards, Random(2))
    assert len({card.name for card in first}) == 4
    assert {card.name for card in first} != {card.name for card in second}
    assert {card.description for card in first} == {"A language model."}
    outputs = [card.price.output for card in (*first, *second) if card.price]
    assert len(set(outputs)) > 2
    assert all(10.4 <= output <= 19.6 for output in outputs)
