"""Opens an arm by name. An arm is imported only when it is opened, because memory is measured."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from benchmarks.block import Run
from benchmarks.overhead.arms.clients import Ask, answer_at_once, chat_openai, plain_httpx2, tuned_aiohttp
from benchmarks.overhead.cells import Arm, Cell


@asynccontextmanager
async def open_arm(arm: Arm, cell: Cell, server_url: str) -> AsyncGenerator[Run, None]:
    """Open `arm` for `cell`; yield a coroutine function that does the job once and returns its answer.

    Args:
        arm: the arm.
        cell: the cell of the grid.
        server_url: the loopback server, without a path; not used with no-op workers.

    Raises:
        ConfigError: the arm needs a package that is not installed.
    """
    base_url = None if cell.delay_ms is None else f"{server_url}/{cell.delay_ms}/v1"
    if arm == "podium":
        from benchmarks.overhead.arms.podium_alone import open_podium  # noqa: PLC0415

        async with open_podium(cell.shape, base_url) as run:
            yield run
        return
    if arm.startswith("podium-"):
        from benchmarks.overhead.arms.podium_in_langchain import open_adapter  # noqa: PLC0415

        async with open_adapter(arm, cell.shape, base_url) as run:
            yield run
        return
    async with _open_ask(arm, base_url) as ask:
        if arm == "floor":
            from benchmarks.overhead.arms.hand_written import hand_written  # noqa: PLC0415

            yield hand_written(cell.shape, ask)
        else:
            from benchmarks.overhead.arms import langgraph_wired as graph  # noqa: PLC0415

            built = graph.built_each_time if arm.startswith("langgraph-built") else graph.compiled_once
            yield (graph.built_in_a_node if arm == "langgraph-nested" else built)(cell.shape, ask)


@asynccontextmanager
async def _open_ask(arm: Arm, base_url: str | None) -> AsyncGenerator[Ask, None]:
    if base_url is None:
        yield answer_at_once
        return
    opened = tuned_aiohttp if arm == "floor" else chat_openai if arm.endswith("openai") else plain_httpx2
    async with opened(base_url) as ask:
        yield ask
