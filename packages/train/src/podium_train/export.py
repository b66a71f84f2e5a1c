"""A trained conductor outside of its training: its folder for servers, and the planner that asks it.

The folder is for vLLM, llama.cpp and other servers. Its file `podium_conductor.json` says how the conductor
was trained and must be asked, and what its pool needs.
"""

import json
import shutil
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from podium.errors import ConfigError
from podium.planners import ChatPlanner, PlanRequest, PlanText
from podium.workers import Card, Worker
from podium_evals.grading.answers import final_answer
from podium_evals.recorded import Vote
from podium_train.prompts import PromptStyle, fingerprint, prefill_of
from podium_train.recipe import Recipe, fingerprint_of
from podium_train.run_files import Best
from podium_train.runs import (
    RECORD,
    PoolFacts,
    TrainingRecord,
    check_recipe,
    read_record,
    share_files,
    weights_of,
)

FACTS_FILE = "podium_conductor.json"
_MOST_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductorFacts:
    """What is known of an exported conductor."""

    schema: int = 1
    """Version of the file."""
    fingerprint: str
    """`podium_train.fingerprint` of the prompt of the training."""
    style: PromptStyle
    """The prompt of the training."""
    base: str
    """The model from which the training started."""
    environment: str
    """Name of the environment."""
    data: str
    """Version of the environment: a fingerprint of its data."""
    pool: PoolFacts
    """The pools of the training."""
    step: int | None = None
    """The step of the exported checkpoint; `None` if unknown."""
    accuracy: float | None = None
    """Its sampled accuracy on the validation split; `None` if unknown."""


FACTS = TypeAdapter(ConductorFacts)


def read_facts(folder: Path) -> ConductorFacts:
    """Read the file of an exported folder."""
    path = folder / FACTS_FILE
    try:
        with path.open("rb") as file:
            facts = FACTS.validate_json(file.read(_MOST_BYTES))
    except OSError as error:
        told = f"{folder} is not an exported conductor, because {FACTS_FILE} cannot be read"
        raise ConfigError(f"{told}: run `podium-train export`") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        told = f"{path} is not valid: {where}: {first['msg']}"
        raise ConfigError(f"{told}: export the conductor again, with `podium-train export`") from error
    if facts.schema != 1:
        raise ConfigError(
            f"{path} has the schema {facts.schema}: this version reads 1; install a newer podium-train"
        )
    return facts


def brought_workers(facts: ConductorFacts) -> tuple[Worker, ...]:
    """Return the workers that each pool of the training had at its end and that need no setting."""
    vote = Vote(read=final_answer)  # reads the final answer in the text of a worker
    if unknown := [name for name in facts.pool.brings if name != vote.card.name]:
        raise ConfigError(
            f"the conductor was trained with the worker {unknown[0]!r} of its environment, and podium-train "
            f"has {vote.card.name}: plan with it in Python, with a pool that has this worker at its end"
        )
    return (vote,) * len(facts.pool.brings)


def check_pool(facts: ConductorFacts, workers: Sequence[Worker]) -> Iterator[str]:
    """Yield a text for each difference of the cards from those of the training, with its remedy."""
    names = tuple(worker.card.name for worker in workers)
    _refuse(facts, names)
    if facts.style.show == "ordinals":
        yield from _of_numbers(facts.pool.workers, names)
        return
    cards = [worker.card for worker in workers if worker.reads_prose]
    if wrong := _names(card for card in cards if bool(card.measured) is not facts.pool.rates):
        yield _of_rates(wrong, trained=facts.pool.rates)
    if wrong := _names(card for card in cards if (card.price is not None) is not facts.pool.prices):
        yield _of_prices(wrong, trained=facts.pool.prices)
    if not min(facts.pool.sizes) <= len(names) <= max(facts.pool.sizes):
        sizes = ", ".join(map(str, facts.pool.sizes))
        yield (
            f"the conductor was trained with pools of {sizes} workers, and the pool has {len(names)}: its "
            "plans may be worse. Train it with such pools (`sizes` in [environment])"
        )


def _refuse(facts: ConductorFacts, names: Sequence[str]) -> None:
    """Refuse a pool in which plans of the training would name a worker that does not exist."""
    trained = facts.pool
    told = "the conductor was trained to use workers that the pool lacks"
    if lacking := [name for name in trained.tools if name not in names]:
        raise ConfigError(f"{told}: add a worker {', '.join(lacking)} that does the same as in the training")
    if trained.brings and tuple(names[-len(trained.brings) :]) != trained.brings:
        raise ConfigError(f"{told}, {', '.join(trained.brings)}: put them at the end of the pool")
    if facts.style.show == "ordinals" and trained.workers and len(names) != len(trained.workers):
        raise ConfigError(
            "the conductor was trained with numbers in place of cards, for the workers "
            f"{', '.join(trained.workers)}, and the pool has {', '.join(names)}: write the tables of the "
            "same workers in the same order"
        )


def _names(cards: Iterator[Card]) -> str:
    return ", ".join(card.name for card in cards)


def _of_numbers(trained: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    if trained and trained != names:
        yield (
            "the conductor was trained with numbers in place of cards, for the workers "
            f"{', '.join(trained)}, and the pool has {', '.join(names)}: it knows no other workers. Write "
            "the tables of the same workers in the same order"
        )


def _of_rates(names: str, *, trained: bool) -> str:
    if trained:
        return (
            f"the conductor learned to choose workers by measured rates, and these have none: {names}. So "
            "its plans may be worse. Measure the rates with `podium evals tune`, and name their file as "
            "`measured` in [pool]"
        )
    return (
        f"the conductor was trained without measured rates, and these workers have some: {names}. So its "
        "plans may be worse. Leave out `measured` in [pool]"
    )


def _of_prices(names: str, *, trained: bool) -> str:
    if trained:
        return (
            f"the conductor was trained with prices of workers, and these have none: {names}. So its plans "
            "may be worse. Set the `price` of these workers"
        )
    return (
        f"the conductor was trained without prices of workers, and these have one: {names}. So its plans "
        "may be worse. Train it with prices, which `podium evals record ask` writes into the recording"
    )


class ConductorPlanner(ChatPlanner):
    """Asks a trained conductor with exactly the prompt of its training.

    Args:
        worker: calls the conductor's model.
        facts: how the conductor was trained.

    Raises:
        ConfigError: the installed Podium writes another prompt than the one of the training.
    """

    def __init__(self, worker: Worker, facts: ConductorFacts) -> None:
        style = facts.style
        found = fingerprint(style)
        if found != facts.fingerprint:
            prompts = f"the prompt {facts.fingerprint}, and this Podium writes {found}"
            raise ConfigError(
                f"the conductor was trained with {prompts}: install the Podium of the training, or train the "
                "conductor again"
            )
        super().__init__(
            worker,
            spelling=style.spelling,
            show=style.show,
            examples=style.examples,
            reasons=style.reasons,
            constrain=False,
        )
        self._max_steps, self._rounds = style.max_steps, style.rounds
        self._prefill = style.prefill
        self._facts = facts

    def warnings(self, workers: Sequence[Worker]) -> Sequence[str]:
        """Return how the workers' cards differ from the cards of the training.

        Raises:
            ConfigError: the pool lacks a worker without which the plans of the training cannot run.
        """
        return tuple(check_pool(self._facts, workers))

    def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Call the model and yield its text, after the prefill that the model's chat template has.

        Raises:
            ConfigError: the run allows another number of steps than the training, shows workers another part
                of the question, or asks for a second round that was not trained; a conductor reports it as a
                `PlannerError`.
        """
        if request.may_keep and self._rounds == 1:
            raise ConfigError(
                "the conductor was trained for one round: write rounds = 1 in [limits], or train it with "
                "[recursion]"
            )
        if request.max_steps != self._max_steps:
            trained = f"the conductor was trained with plans of up to {self._max_steps} steps"
            raise ConfigError(
                f"{trained}, and the run allows {request.max_steps}: write "
                f"plan_steps = {self._max_steps} in [limits]"
            )
        if request.shows_question is not self._facts.pool.shows_question:
            shown, key = ("saw", "true") if self._facts.pool.shows_question else ("did not see", "false")
            raise ConfigError(
                f"in the training of the conductor, workers {shown} the question: write "
                f"show_question = {key} in [conductor]"
            )
        return self._after_prefill(super().plan(request))

    async def _after_prefill(
        self, call: AsyncGenerator[str | PlanText, None]
    ) -> AsyncGenerator[str | PlanText, None]:
        before = self._prefill
        async with aclosing(call) as pieces:
            async for piece in pieces:
                if isinstance(piece, PlanText):
                    yield replace(piece, text=self._prefill + piece.text)
                else:
                    yield before + piece
                    before = ""


GGUF_FILE = "conductor.gguf"
_KEPT = (
    "config.json",
    "generation_config.json",
    "*.safetensors",
    "model.safetensors.index.json",
    "tokenizer*",
    "special_tokens_map.json",
    "vocab*",
    "merges.txt",
    "added_tokens.json",
    "chat_template*",
)


def export_conductor(
    recipe: Recipe, folder: Path, model: Path, out: Path, *, gguf: bool = False
) -> ConductorFacts:
    """Write the model, its tokenizer with the chat template, and `podium_conductor.json`.

    What the file says of the training is read from the record of the model. Small matrices of LoRA are merged
    into the weights.
    """
    if out.exists():
        raise ConfigError(f"{out} exists: name a new folder with --out")
    is_lora = (model / "adapter_config.json").exists()
    if not (model / "config.json").exists() and not is_lora:
        raise ConfigError(f"there is no model in {model}: train one, or name its folder with --model")
    record = read_record(model)
    if record is None:
        raise ConfigError(
            f"the model in {model} was not trained by podium-train, because it has no {RECORD}: name 'best', "
            f"'final' or a checkpoint of {folder / recipe.folder} with --model"
        )
    check_recipe(record, recipe, model)
    if record.fingerprint is None:
        fingerprint_of(record.recipe.prompt)  # says why it cannot be served
    _check_template(model, record.recipe.prompt.style.prefill)
    if is_lora:
        _check_start(model, record)
    new = out.with_name(f"{out.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    if is_lora:
        trainers = import_module("podium_train.trl")
        trainers.merge_lora(model, new, dtype=trainers.dtype_of(record.recipe.model))
    _copy(model, new)
    if gguf:
        import_module("podium_train.trl").write_gguf(new, new / GGUF_FILE)
    facts = _facts(record, model)
    (new / FACTS_FILE).write_bytes(FACTS.dump_json(facts, indent=2))
    share_files(new, like=FACTS_FILE)
    new.rename(out)
    return facts


def _facts(record: TrainingRecord, model: Path) -> ConductorFacts:
    best = _best(model)
    assert record.fingerprint is not None
    return ConductorFacts(
        fingerprint=record.fingerprint,
        style=record.recipe.prompt.style,
        base=record.recipe.model.base,
        environment=record.environment,
        data=record.data,
        pool=record.pool,
        step=None if best is None else best.step,
        accuracy=None if best is None else best.accuracy,
    )


def _copy(model: Path, out: Path) -> None:
    """Copy the files of the model and the tokenizer, without the state of the trainer."""
    for pattern in _KEPT:
        for path in model.glob(pattern):
            if not (out / path.name).exists() and not path.name.startswith("adapter_"):
                shutil.copy2(path, out / path.name)


def _check_template(model: Path, prefill: str) -> None:
    """Check that the tokenizer has a chat template with this prefill, because servers write it."""
    own, settings = model / "chat_template.jinja", model / "tokenizer_config.json"
    template = None
    if own.exists():
        template = own.read_text(encoding="utf-8")
    elif settings.exists():
        template = json.loads(settings.read_text(encoding="utf-8")).get("chat_template")
    if not isinstance(template, str):
        raise ConfigError(f"the tokenizer in {model} has no chat template: take a chat model as base")
    if (found := prefill_of(template)) != prefill:
        raise ConfigError(
            f"the chat template in {model} has the prefill {found!r:.60}, and the training had "
            f"{prefill!r:.60}: restore the template of the training"
        )


def _check_start(model: Path, record: TrainingRecord) -> None:
    """Check that the small matrices are merged into the weights from which their training started."""
    settings = json.loads((model / "adapter_config.json").read_text(encoding="utf-8"))
    start = Path(settings["base_model_name_or_path"])
    if record.weights is not None and weights_of(start) != record.weights:
        raise ConfigError(
            f"the model in {model} changes the weights in {start}, and these are not the weights from which "
            "its training started: restore them"
        )


def _best(model: Path) -> Best | None:
    path = model / "best.json"
    return Best(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None
