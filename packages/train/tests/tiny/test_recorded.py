"""The tiny model on recorded answers; these tests need torch and run by `make test-trainers`."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import anyio
import pytest
from small_recording import small_recording

from podium.errors import ConfigError
from podium.plan_text import parse_plan
from podium.workers.rates import kind_of, measured_kinds, rate_on
from podium_evals.recorded import write_recordings
from podium_train import reward_of
from podium_train.environments.recorded import RecordedSettings, parts_of
from podium_train.tiny.conductor import TinyConductor
from podium_train.tiny.grpo import Grpo
from podium_train.tiny.model import TinyConfig
from podium_train.tiny.recorded.mixed import QuestionsAndBundles
from podium_train.tiny.recorded.run import Settings, run
from podium_train.tiny.recorded.sheet import LETTERS, Sheet
from podium_train.tiny.recorded.world import RecordedWorld
from podium_train.tiny.tokens import encode
from podium_train.tiny.warm_up import WarmUp

pytestmark = pytest.mark.timeout(300)
RECORDINGS = small_recording()
DRAWN = RecordedSettings(parts=(2, 3), sizes=(2, 3), held_workers=1)
WORLD = RecordedWorld(QuestionsAndBundles(RECORDINGS, DRAWN, name="small"))
EPISODES = WORLD.environment.episodes("train", 40, seed=1)
SETTINGS = Settings(
    model=TinyConfig(width=32, heads=2, feed_forward=48, layers=2),
    warm_up=WarmUp(steps=60, prompts=16, texts=4, lr=1e-2),
    grpo=Grpo(updates=4, prompts=4, texts=8),
    validate_every=2,
    validation=20,
    episodes=20,
    bundles=20,
)


def test_a_sheet() -> None:
    """Workers are in the order of the rates on the cards, and kinds in the order of their similarity."""
    found = []
    for episode in EPISODES:
        environment = WORLD.environment.of(episode)
        sheet = Sheet.of(environment, episode)
        cards, parts = episode.cards[: sheet.vote], parts_of(environment.query_of(episode))
        kinds = measured_kinds(cards)
        for kind, ranked in zip(kinds, sheet.rates, strict=True):
            rates = [measured.rate for card in cards if (measured := rate_on(card, kind))]
            assert list(ranked.order) == sorted(range(len(cards)), key=lambda place: -rates[place])
            assert ranked.tenths == tuple(min(9, int(10 * rates[place])) for place in ranked.order)
        assert sheet.is_bundle is (len(parts) > 1)
        assert sheet.needs == tuple(part.needs for part in parts)
        for part, likeness in zip(parts, sheet.likeness, strict=True):
            nearest = kinds[likeness.order[0]]
            assert kind_of(part.text, kinds) in (nearest, None)
            found.append(nearest.name == part.question.kind)
        shown = sheet.text.splitlines()
        assert [line[0] for line in shown] == ["v", *LETTERS[: len(kinds)], *"123"[: len(parts)]]
        assert not any(word in sheet.text for word in episode.workers[: sheet.vote])
    assert sum(found) > 0.6 * len(found)


def test_texts_of_the_warm_start_are_plans_with_an_outcome() -> None:
    """Every part is asked, the tokenizer gives the text back, and most picks are the first of their row."""
    tokenizer, ranks = WORLD.new_tokenizer(texts=100), Counter[int]()
    texts = iter(WORLD.texts(EPISODES, Random(1), 3))
    for episode in EPISODES:
        environment = WORLD.environment.of(episode)
        sheet = Sheet.of(environment, episode)
        for text in islice(texts, 3):
            reward = anyio.run(reward_of, text, episode, WORLD.environment)
            assert reward.plan == parse_plan(text, workers=len(episode.cards), max_steps=5)
            assert reward.outcome is not None
            (row,) = encode(tokenizer, [text])
            assert tokenizer.decode(row) == text
            for number in range(len(sheet.likeness)):
                _, letter, first, *_ = text.splitlines()[number].split()
                ranks[sheet.rates[LETTERS.index(letter)].order.index(int(first))] += 1
    assert ranks[0] > ranks[1] > ranks[2]


def test_bundles_of_more_parts_than_rows() -> None:
    """Are refused, because the cards could not tell the rates of all parts; so are cards without rates."""
    for wrong in (replace(DRAWN, parts=(2, 4)), replace(DRAWN, parts=None), replace(DRAWN, probes=0)):
        with pytest.raises(ConfigError, match=r"cards show 3 kinds|probes is 0"):
            QuestionsAndBundles(RECORDINGS, wrong, name="small")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a short run."""
    folder: Path = tmp_path_factory.mktemp("recorded")
    told: list[str] = []
    run(WORLD, SETTINGS, seed=1, folder=folder, told=told.append)
    begins = ["warm start, step 50", "warm start", "update 2", "update 4"]
    assert [line.split(":")[0] for line in told] == [*begins, *["comparison"] * 8]
    return folder


@pytest.mark.long
def test_a_run(folder: Path) -> None:
    """It is compared with all arms on all held-out splits, for single questions and for bundles."""
    result = json.loads((folder / "result.json").read_text())
    named = [
        (row["over best single"]["environment"], row["over best single"]["split"])
        for row in result["compared"]
    ]
    splits = ("questions", "kinds", "workers", "mixes")
    assert named == [
        (f"small, {form}", split) for form in ("single questions", "bundles") for split in splits
    ]
    for row in result["compared"]:
        arms = {arm["name"]: arm for arm in row["over best single"]["arms"]}
        greedy = arms["tiny conductor, greedy"]
        assert {"best card", "tiny conductor, sampled", "vote of the best 3"} <= set(arms)
        assert 1 - greedy["valid"] <= row["parts lost"] + 1e-9 <= 1 + 1e-9
        base = {arm["name"]: arm for arm in row["over conductor"]["arms"]}["tiny conductor, greedy"]
        assert base["difference"] is None
        assert base["score"] == greedy["score"]
    assert "Parts lost" in (folder / "report.md").read_text()
    best = TinyConductor.load(folder / "best", WORLD.message)
    assert best.model.config.vocabulary == best.tokenizer.get_vocab_size()


@pytest.mark.long
def test_the_command(folder: Path, tmp_path: Path) -> None:
    """Finished seeds are reported, results of other settings are refused, and errors are one line."""
    recording, kept = tmp_path / "recording.jsonl.gz", tmp_path / "out" / "seed-1"
    write_recordings(RECORDINGS, recording)
    kept.mkdir(parents=True)
    world = RecordedWorld(QuestionsAndBundles(RECORDINGS, DRAWN, name="recording.jsonl.gz"))
    result = json.loads((folder / "result.json").read_text())
    (kept / "report.md").write_text("| the tables |")

    def command(fingerprint: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        (kept / "result.json").write_text(json.dumps({**result, "fingerprint": fingerprint}))
        words = [sys.executable, "-m", "podium_train.tiny.recorded", *arguments]
        words += ["--sizes", "2", "3", "--held-workers", "1", "--out", str(kept.parent)]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    done = command(Settings().fingerprint(world), str(recording))
    assert done.returncode == 0, done.stderr
    assert "| the tables |" in done.stdout
    refused = command(SETTINGS.fingerprint(world), str(recording))
    assert refused.returncode == 2
    assert "name another --out" in refused.stderr
    for wrong in (
        ("nothing.jsonl",),
        (str(recording), "--pool", "ada,zoe"),
        (str(recording), "--pool", "ada,bob"),
    ):
        failed = command("", *wrong)
        assert failed.returncode == 1
        assert "Traceback" not in failed.stderr
        assert len(failed.stderr.splitlines()) == 1
