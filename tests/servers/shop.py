"""An MCP server whose tool acts: it refunds orders.

with shop() as orders:
    ...  # orders.url is its URL, orders.refunds are the orders that it has refunded
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio
from mcp.server.fastmcp import FastMCP
from servers.web_thread import serving_mcp


@dataclass
class Shop:
    """A running server."""

    url: str = ""
    refunds: list[int] = field(default_factory=list)
    """The orders of all calls."""
    late: int = 0
    """How many of the next calls wait for longer than `table` allows."""

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
        if orders.late:
            orders.late -= 1
            await anyio.sleep(1)
        return f"refunded {order}"

    with serving_mcp(server) as served:
        orders.url = served.url
        yield orders
