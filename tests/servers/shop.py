"""An MCP server whose tool acts: it refunds orders.

with shop() as orders:
    ...  # orders.url is its URL, orders.refunds are the orders that it has refunded
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import anyio
from mcp.server.fastmcp import FastMCP
from servers.web_thread import serving_mcp

End = Literal["done", "failed", "late"]


@dataclass
class Shop:
    """A running server."""

    url: str = ""
    refunds: list[int] = field(default_factory=list)
    """The orders of all calls."""
    ends: list[End] = field(default_factory=list)
    """How the next calls end; without one, a call is done. `late` waits for longer than `table` allows."""

    @property
    def table(self) -> str:
        """The table of its worker, whose tool is `shop.refund`."""
        return f"{self.patient}seconds = 0.6\n"

    @property
    def patient(self) -> str:
        """As `table`, with the default timeout: no call ends late."""
        return f'[workers.shop]\ntype = "mcp"\nurl = "{self.url}"\n'


@contextmanager
def shop() -> Iterator[Shop]:
    """Serve a shop on loopback, in a thread, until the block ends."""
    orders, server = Shop(), FastMCP("shop")

    @server.tool()
    async def refund(order: int) -> str:
        """Refund an order."""
        orders.refunds.append(order)
        end = orders.ends.pop(0) if orders.ends else "done"
        if end == "late":
            await anyio.sleep(1)
        if end == "failed":
            raise ValueError("the order is closed")
        return f"refunded {order}"

    with serving_mcp(server) as served:
        orders.url = served.url
        yield orders
