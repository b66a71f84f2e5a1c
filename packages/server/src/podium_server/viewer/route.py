"""Serves the files of the viewer.

The files are public: they have no data. The page reads the runs API with the session of its user.
"""

from functools import cache
from hashlib import sha256
from importlib.resources import files

from podium_server.http import BadRequest, Exchange
from podium_server.keys import Caller

PATH = "/viewer"
_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
_HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class Viewer:
    """`GET /` and `GET /viewer/{file}`."""

    async def index(self, exchange: Exchange, _: Caller) -> None:
        """Send the page of the viewer."""
        await self._send(exchange, "index.html")

    async def file(self, exchange: Exchange, _: Caller) -> None:
        """Send a file of the viewer.

        Raises:
            BadRequest: there is no such file.
        """
        await self._send(exchange, str(exchange.path_params["file"]))

    async def _send(self, exchange: Exchange, name: str) -> None:
        found = static_files().get(name)
        if found is None:
            raise BadRequest(f"the viewer has no file {name!r:.100}", status=404, code="unknown_url")
        tag = f'"{sha256(found).hexdigest()[:24]}"'
        headers = {**_HEADERS, "etag": tag}
        is_known = tag in (exchange.header("if-none-match") or "")
        kind = _TYPES[name.rpartition(".")[2]]
        await exchange.whole(
            b"" if is_known else found, kind, status=304 if is_known else 200, headers=headers
        )


@cache
def static_files() -> dict[str, bytes]:
    """Return the files of the viewer by their paths; no other file of the machine can be asked for."""
    root = files("podium_server") / "viewer" / "static"
    found = {each.name: each.read_bytes() for each in root.iterdir() if each.is_file()}
    vendor = root / "vendor"
    return found | {f"vendor/{each.name}": each.read_bytes() for each in vendor.iterdir() if each.is_file()}
