"""Makes new questions of Reasoning Gym with the library `reasoning-gym`, and writes them to a file."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from podium.cli.screen import reporting
from podium.config.source import why_unwritable
from podium.errors import ConfigError, install_hint
from podium_evals.grading import reasoning_gym

GYM_KINDS = frozenset(
    """
    ab acre aiw arc_1d arc_agi base_conversion bf binary_matrix bitwise_arithmetic boxnet
    caesar_cipher calendar_arithmetic chain_sum circuit_logic codeio complex_arithmetic count_bits
    countdown course_schedule cryptarithm decimal_chain_sum dice emoji_mystery figlet_font
    fraction_simplification futoshiki game_of_life game_of_life_halting graph_color group_anagrams
    gsm_symbolic intermediate_integration jugs knight_swap knights_knaves largest_island lcm
    leg_counting letter_counting letter_jumble list_functions mahjong_puzzle maze modulo_grid
    n_queens needle_haystack number_format number_sequence palindrome_generation
    palindrome_partitioning polynomial_multiplication pool_matrix power_function prime_factorization
    products propositional_logic puzzle24 quantum_lock ransom_note rearc rectangle_count
    rotate_matrix rotten_oranges rubiks_cube rush_hour self_reference sentence_reordering
    shortest_path simple_geometry simple_integration spell_backward spiral_matrix string_insertion
    string_manipulation string_splitting sudoku syllogism time_intervals tower_of_hanoi word_ladder
    word_sorting zebra_puzzles
    """.split()  # noqa: SIM905 - a list of 82 strings has a line for each
)
"""The kinds that may be used. The other 19 recorded kinds are held back for a last test, so that nothing is
chosen by them or trained on them."""


def gym_rows(kind: str, count: int, *, seed: int, **settings: Any) -> list[Mapping[str, Any]]:
    """Return new questions of a kind as rows of a questions file, with the grader `reasoning-gym`.

    With the same release of the library, the same arguments give the same questions. The recorded easy
    questions were made with seed 45 and the default settings.

    Args:
        kind: the kind; the library calls it a dataset.
        count: the number of questions.
        seed: another seed gives other questions.
        settings: settings of the kind, such as its difficulty.

    Raises:
        ConfigError: the library is not installed, the kind is unknown or held back for a last test, a setting
            is wrong, or the kind is `arc_agi` or `rearc`. The graders of these kinds need tuples, which JSON
            does not have, so they reject right answers from a file.
    """
    if kind not in GYM_KINDS:
        raise ConfigError(f"{kind!r} is not a kind of Reasoning Gym, or is held back for a last test")
    try:
        from reasoning_gym import create_dataset  # type: ignore[import-untyped] # noqa: PLC0415 - an extra
    except ImportError as error:
        hint = install_hint("podium-evals[reasoning-gym]")
        raise ConfigError(f"questions of Reasoning Gym need reasoning-gym: {hint}") from error
    try:
        entries = [dict(entry) for entry in create_dataset(kind, size=count, seed=seed, **settings)]
    except (TypeError, ValueError, AssertionError) as error:
        raise ConfigError(f"Reasoning Gym does not make {kind!r} with {settings!r}: {error}") from error
    rows = []
    for index, entry in enumerate(entries):
        named = {"id": f"gym/{kind}/{seed}/{index}", "kind": kind, "grader": "reasoning-gym"}
        try:
            row = json.loads(json.dumps(entry | named))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"questions of {kind!r} cannot be kept in a file: {error}") from error
        if row["answer"] is not None:
            reasoning_gym(row, str(row["answer"]))  # raises if the grader rejects the right answer
        rows.append(row)
    return rows


def questions(
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The new file.")],
    count: Annotated[int, typer.Option(min=1, help="Number of questions of each kind.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed: another seed gives other questions.")] = 0,
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A kind; may be repeated. Default: all kinds."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=JSON", help="A setting for the kinds; may be repeated."),
    ] = None,
) -> None:
    """Write new questions of Reasoning Gym to a file."""
    with reporting() as screen:
        if out.exists():
            raise ConfigError(f"{out} already exists: choose another file")
        given, rows = dict(map(_setting, setting or ())), list[Mapping[str, Any]]()
        for name in sorted(GYM_KINDS) if kind is None else dict.fromkeys(kind):
            try:
                rows += gym_rows(name, count, seed=seed, **given)
            except ConfigError as error:
                if kind is not None or "rejects the right answer" not in str(error):
                    raise
                screen.note(f"podium: left out: {error}")
        _write(rows, out)
        screen.note(f"podium: wrote {len(rows):,} questions to {out}; their grader is {rows[0]['grader']}")


def _setting(told: str) -> tuple[str, Any]:
    name, equals, value = told.partition("=")
    try:
        if equals and name.isidentifier():
            return name, json.loads(value)
    except ValueError:
        pass
    raise ConfigError(f"--setting {told!r}: write NAME=JSON, as in min_animals=3")


def _write(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write a new file of questions. A failed write leaves no partial file."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("x", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {why_unwritable(error)}") from error
    finally:
        part.unlink(missing_ok=True)
