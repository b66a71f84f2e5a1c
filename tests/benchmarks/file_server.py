"""A loopback server of files, as GitHub serves them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote


@dataclass
class FileServer:
    """Serves a folder."""

    folder: Path
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Path and range of each request, in order."""
    url: str = ""

    @contextmanager
    def in_thread(self) -> Iterator["FileServer"]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{server.server_port}/"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        serving = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                serving.answer(self)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        path = unquote(handler.path).removeprefix("/")
        asked = handler.headers.get("range", "")
        self.requests.append((path, asked))
        body = (self.folder / path).read_bytes()
        handler.send_response(200)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
