"""Opens an arm by name. Each is imported only when opened, since memory is measured."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from podium_evals.overhead.arms.asking import Ask, Run, ask_nobody, chat_openai, plain_httpx, tuned_httpx
from podium_evals.overhead.cells import Arm, Cell


@asynccontextmanager
async def open_arm(arm: Arm, cell: Cell, server_url: str) -> AsyncGenerator[Run, None]:
    """Open `arm` for `cell`; yield a coroutine function that does the job once and returns its answer.

    Args:
        arm: who does the job.
        cell: what the job is.
        server_url: the loopback server, without a path; not asked for no-op workers.

    Raises:
        ConfigError: the arm needs a package that is not installed.
    """
    base_url = None if cell.delay_ms is None else f"{server_url}/{cell.delay_ms}/v1"
    if arm == "podium":
        from podium_evals.overhead.arms.conducted import conducted  # noqa: PLC0415

        async with conducted(cell.shape, base_url) as run:
            yield run
        return
    if arm.startswith("podium-"):
        from podium_evals.overhead.arms.adapted import adapted  # noqa: PLC0415

        async with adapted(arm, cell.shape, base_url) as run:
            yield run
        return
    async with _open_ask(arm, base_url) as ask:
        if arm == "floor":
            from podium_evals.overhead.arms.floor import hand_written  # noqa: PLC0415

            yield hand_written(cell.shape, ask)
        else:
            from podium_evals.overhead.arms import graph  # noqa: PLC0415

            built = graph.built_each_time if arm.startswith("langgraph-built") else graph.compiled_once
            yield (graph.built_in_a_node if arm == "langgraph-nested" else built)(cell.shape, ask)


@asynccontextmanager
async def _open_ask(arm: Arm, base_url: str | None) -> AsyncGenerator[Ask, None]:
    if base_url is None:
        yield ask_nobody
        return
    opened = tuned_httpx if arm == "floor" else chat_openai if arm.endswith("openai") else plain_httpx
    async with opened(base_url) as ask:
        yield ask
