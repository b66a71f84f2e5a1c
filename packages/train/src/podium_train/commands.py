"""The command line `podium-train`."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

import anyio
import typer

from podium.errors import ConfigError, PodiumError, install_hint
from podium_train.environments import Split
from podium_train.guards import PLANS_ARE_LEARNT, held_out_told, second_told
from podium_train.recipe import (
    Recipe,
    check_environment,
    check_model,
    load_recipe,
    shipped_launchers,
    shipped_recipes,
)
from podium_train.run_files import Reporter, WrittenText, lines_of

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
Config = Annotated[Path, typer.Option("--config", metavar="FILE", help="The recipe.")]
ReportTo = Annotated[
    str, typer.Option(metavar="NAME", help="Where TRL reports its measures: tensorboard, wandb, trackio.")
]
Model = Annotated[Path | None, typer.Option(help="Folder of the model. Default: the best checkpoint.")]
_KEPT = "The log and the last checkpoint are kept; the same command continues from the checkpoint"


@app.callback()
def root() -> None:
    """Train conductors for Podium."""


@app.command()
def recipe(name: Annotated[str, typer.Argument(help="Name of a recipe of the package.")] = "") -> None:
    """Print a recipe, or a file for `accelerate launch`; without a name, list them."""
    known = shipped_recipes() | shipped_launchers()
    if not name:
        for each, text in known.items():
            typer.echo(f"{each:16}{text.splitlines()[0].removeprefix('# ')}")
        return
    if name not in known:
        raise typer.BadParameter(f"there is no recipe {name!r}: name one of {', '.join(known)}")
    typer.echo(known[name], nl=False)


@app.command()
def base(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder to write.")],
    gguf: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the model of a GGUF file, in float32.")
    ] = None,
) -> None:
    """Write a model to start from: one that has learnt nothing, to rehearse, or the model of a GGUF file."""
    trainers = _trainers()
    weights = trainers.write_small_base(out) if gguf is None else trainers.write_gguf_base(gguf, out)
    kind = "random weights" if gguf is None else "weights"
    typer.echo(f"{out} has a model of {weights:,} {kind}, for 'base' in [model].")


@app.command()
def examples(
    config: Config,
    episodes: Annotated[int, typer.Option(min=1, help="Number of episodes, each with a plan.")] = 400,
    seed: Annotated[int, typer.Option(help="Seed of the episodes.")] = 1,
) -> None:
    """Write plans for sft that choose workers by the measured rates on their cards. It needs no model."""
    from podium_train.warm_start import write_example_plans  # noqa: PLC0415 - used by this command only

    found = _with(config, "sft")
    assert found.sft is not None
    written = write_example_plans(found, config.parent, episodes=episodes, seed=seed)
    typer.echo(f"{config.parent / found.sft.examples} has {written} plans with a right answer.")


@app.command()
def sft(config: Config, report_to: ReportTo = "none") -> None:
    """Train on plans. An interrupted run continues."""
    found, trainers = _with(config, "sft"), _trainers()
    check_model(found, config.parent)
    report = Reporter()
    with _interruptible(f"sft --config {config}", _KEPT):
        trained = trainers.run_sft(found, config.parent, report=report, report_to=report_to)
    report.line(f"The trained model is in {trained}; `podium-train grpo` starts from it.")


@app.command()
def grpo(config: Config, report_to: ReportTo = "none") -> None:
    """Train by reinforcement on the outcome of plans. An interrupted run continues."""
    found, trainers = _with(config, "grpo"), _trainers()
    check_model(found, config.parent)
    report = Reporter()
    with _interruptible(f"grpo --config {config}", _KEPT):
        stop = trainers.run_grpo(found, config.parent, report=report, report_to=report_to)
    run = config.parent / found.folder
    report.line(f"The last model is in {run / 'final'}, the best checkpoint in {run / 'best'}.")
    if stop is not None:
        _fail(stop.told)


@app.command("eval")
def evaluate(
    config: Config,
    model: Model = None,
    show: Annotated[
        int, typer.Option(min=0, metavar="N", help="Show the first N texts of each split with their grades.")
    ] = 0,
) -> None:
    """Measure a trained model on the held-out splits of its recipe, sampled and greedy."""
    found = _with(config, "grpo")
    texts: list[tuple[str, WrittenText]] = []
    folder, trainers = model or config.parent / found.folder / "best", _trainers()
    with _interruptible(f"eval --config {config}", "Nothing is kept; the same command measures again"):
        measured = trainers.evaluate(found, config.parent, folder, lambda *each: texts.append(each))
    for split, each in measured.items():
        typer.echo(f"{split}: {held_out_told(each)}")
        for how, second in (("sampled", each.sampled_second), ("greedy", each.greedy_second)):
            if second is not None:
                typer.echo(f"  {how}{second_told(second)}")
        for text in [text for of, text in texts if of == split][:show]:
            for line in ("", *lines_of(text)):
                typer.echo(line)
    if not any(text.has_plan for _, text in texts):
        _fail(f"none of the {len(texts)} texts has a valid plan. {PLANS_ARE_LEARNT}.")


@app.command()
def compare(
    config: Config,
    planner: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The podium.toml whose planner is the conductor. Default: none."),
    ] = None,
    split: Annotated[str, typer.Option(help="The split of the environment.")] = "questions",
    episodes: Annotated[int, typer.Option(min=2, help="Number of episodes.")] = 300,
    seed: Annotated[int, typer.Option(help="Seed of the episodes.")] = 42,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the figures as JSON.")] = None,
) -> None:
    """Compare a served conductor with baselines on a split, with intervals. It needs no trainer."""
    from podium_train.evaluation import as_table  # noqa: PLC0415
    from podium_train.evaluation.comparison import compare_served  # noqa: PLC0415 - used by this command only

    recipe = load_recipe(config)
    if out is not None and out.exists():
        raise ConfigError(f"{out} exists: name another file with --out")
    if out is not None and not out.parent.is_dir():
        raise ConfigError(f"{out} cannot be written: there is no folder {out.parent}")
    found = anyio.run(
        lambda: compare_served(
            recipe,
            config.parent,
            split=cast("Split", split),
            episodes=episodes,
            seed=seed,
            planner=planner,
        )
    )
    typer.echo(as_table(found), nl=False)
    if out is not None:
        try:
            with out.open("x", encoding="utf-8") as file:
                file.write(json.dumps(asdict(found), indent=2) + "\n")
        except OSError as error:
            raise ConfigError(f"{out} cannot be written: {error}") from error
    conductor = found.arms[0]
    if planner is not None and not conductor.valid:
        _fail(f"none of the texts of {conductor.name} has a valid plan.")


@app.command()
def export(
    config: Config,
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    model: Model = None,
    *,
    gguf: Annotated[bool, typer.Option("--gguf", help="Also write a GGUF file, for llama.cpp.")] = False,
) -> None:
    """Write a trained conductor as a folder for vLLM and llama.cpp, with what it needs to be served."""
    from podium_train.export import export_conductor  # noqa: PLC0415 - used by this command only

    found = load_recipe(config)
    if gguf:
        _trainers()
    folder = model or config.parent / found.folder / "best"
    facts = export_conductor(found, config.parent, folder, out, gguf=gguf)
    typer.echo(
        f"The conductor is in {out}, with the prompt {facts.fingerprint}. To serve it, and plan with it:"
    )
    served, port, provider = f"vllm serve {out} --served-model-name conductor", 8000, "vllm"
    if gguf:
        served, port, provider = f"llama-server -m {out}/conductor.gguf --jinja", 8080, "llamacpp"
    typer.echo(
        f'  {served}\n\n[planner]\ntype = "conductor"\npath = "{out}"\nmodel = "conductor"\n'
        f'base_url = "http://localhost:{port}/v1"\nprovider = "{provider}"\n\n'
        f"[limits]\nplan_steps = {found.prompt.style.max_steps}"
    )


def _with(config: Path, table: str) -> Recipe:
    """Return a recipe that has a table."""
    found = load_recipe(config)
    if getattr(found, table) is None:
        raise typer.BadParameter(f"{config} has no table [{table}]: add it")
    check_environment(found, config.parent)
    return found


def _fail(reason: str) -> NoReturn:
    """End the command with the exit code 3 of a conductor that does not plan."""
    typer.echo(reason, err=True)
    raise typer.Exit(3)


def _trainers() -> Any:
    """Return the module with the trainers, which needs an extra."""
    for name in ("torch", "trl", "gguf"):
        _module(name, "trl")
    return import_module("podium_train.trl")


def _module(name: str, extra: str) -> None:
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        told = f"this command needs {name}, which is not installed: {install_hint(f'podium-train[{extra}]')}"
        raise typer.BadParameter(told) from error


@contextmanager
def _interruptible(command: str, kept: str) -> Iterator[None]:
    """Tell what is kept after Ctrl-C, and which command continues."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"podium-train: interrupted. {kept}: `podium-train {command}`", err=True)
        raise typer.Exit(130) from None


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except PodiumError as error:
        typer.echo(f"podium-train: {error}", err=True)
        sys.exit(2)


def main() -> None:
    """Run the command line."""
    with _errors():
        app()
