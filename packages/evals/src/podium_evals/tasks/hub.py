"""Downloads rows and files of datasets on the Hugging Face hub."""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from podium_evals.errors import OriginUnavailable
from podium_evals.recorded import Origin, OriginFile, Provenance
from podium_evals.recorded.attempts import TIMEOUTS, RequestFailed, check_status, until_served
from podium_evals.tasks.task import HubFiles, HubSplit

PAGE = 100
"""Number of rows in one request, the maximum of the viewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """The URLs of a dataset hub, and the user's token."""

    files: str = "https://huggingface.co"
    rows: str = "https://datasets-server.huggingface.co"
    """The URL of the dataset viewer."""
    token: str = field(default="", repr=False)
    """The user's token, for datasets whose owners ask for consent; empty for none. It is sent only to these
    two servers."""

    @classmethod
    def of_environment(cls) -> "Hub":
        """Return the hub with the URL in `HF_ENDPOINT` and the token in `HF_TOKEN`, if they are set."""
        files = os.environ.get("HF_ENDPOINT", "").rstrip("/") or cls().files
        return cls(files=files, token=os.environ.get("HF_TOKEN", ""))

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers with the user's token, for each request."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


async def download_rows(
    hub: Hub, source: HubSplit, folder: Path, *, on_rows: Callable[[int, int], object] = lambda *_: None
) -> tuple[Path, str]:
    """Download the rows of a split as JSON lines, unless the file exists. Broken downloads are resumed.

    Args:
        hub: the hub.
        source: the split.
        folder: the folder for the file.
        on_rows: called after each page with the number of rows so far and the number of all rows.

    Returns:
        The file, and the commit of the dataset; the commit is empty if the server does not send it.

    Raises:
        OriginUnavailable: the server does not send the rows, or cuts some of them.
    """
    name = re.sub(r"[^\w.-]+", "__", f"{source.dataset}/{source.config}/{source.split}")
    target, part = folder / f"{name}.jsonl", folder / f"{name}.jsonl.part"
    try:
        if not target.exists():
            folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - a moment
            await _Rows(hub, source, part, on_rows).download()
            part.replace(target)
        with target.open(encoding="utf-8") as file:
            return target, str(json.loads(file.readline())["revision"])
    except (OSError, ValueError, KeyError) as error:
        raise OriginUnavailable(f"{target} cannot be written or read: {error}") from error


@dataclass(slots=True)
class _Rows:
    """A file with a partly downloaded split: a first line with its source, and a line for each row."""

    hub: Hub
    source: HubSplit
    part: Path
    on_rows: Callable[[int, int], object]

    async def download(self) -> None:
        """Download page after page."""
        header, have = self._begun()
        async with httpx2.AsyncClient(timeout=TIMEOUTS, headers=self.hub.headers) as client:
            while header is None or have < header["total"]:
                page = await until_served(self._url(have), partial(self._page, client, have))
                if header is not None and page.header != header:
                    header, have = None, 0  # the dataset has changed
                    self.part.unlink()
                    continue
                with self.part.open("a" if have else "w", encoding="utf-8") as file:
                    if not have:
                        header = page.header
                        file.write(json.dumps(header) + "\n")
                    file.writelines(json.dumps(row) + "\n" for row in page.rows)
                    file.flush()
                    os.fsync(file.fileno())
                have += len(page.rows)
                self.on_rows(have, page.header["total"])

    def _begun(self) -> tuple[dict[str, Any] | None, int]:
        """Return the state that an earlier process has left. An incomplete last line is removed."""
        if not self.part.exists():
            return None, 0
        content = self.part.read_bytes()
        lines = content[: content.rfind(b"\n") + 1].splitlines()
        if len(lines) < 2:
            return None, 0
        self.part.write_bytes(b"\n".join(lines) + b"\n")
        return json.loads(lines[0]), len(lines) - 1

    def _url(self, offset: int) -> str:
        source = self.source
        query = {"dataset": source.dataset, "config": source.config, "split": source.split}
        return str(httpx2.URL(f"{self.hub.rows}/rows", params=query | {"offset": offset, "length": PAGE}))

    async def _page(self, client: httpx2.AsyncClient, offset: int) -> "_Page":
        try:
            response = await client.get(self._url(offset))
        except httpx2.HTTPError as error:
            raise RequestFailed(f"{type(error).__name__}: {error}") from error
        if response.status_code in (401, 403, 404):
            raise OriginUnavailable(f"{self._url(offset)}: the server answered {response.status_code}")
        check_status(response)
        try:
            told = response.json()
            rows = [each["row"] for each in told["rows"]]
            cut = [name for each in told["rows"] for name in each["truncated_cells"]]
            header = {"revision": response.headers.get("x-revision", ""), "total": told["num_rows_total"]}
        except (ValueError, KeyError, TypeError) as error:
            raise OriginUnavailable(f"{self._url(offset)} has no rows: {error!r}") from error
        if cut or told.get("partial"):
            what = f"the column {cut[0]!r}" if cut else "the split"
            raise OriginUnavailable(f"{self._url(offset)}: the server has shortened {what}")
        if not rows and offset < header["total"]:
            raise OriginUnavailable(f"{self._url(offset)} has no rows, of {header['total']}")
        return _Page(header, rows)


@dataclass(frozen=True, slots=True)
class _Page:
    header: dict[str, Any]
    rows: list[Any]


async def hub_origin(hub: Hub, source: HubFiles, provenance: Provenance) -> Origin:
    """Return the files of a dataset as an origin, with the sizes and SHA-256 that the hub sends.

    Raises:
        OriginUnavailable: the hub does not serve the files, or sends no SHA-256.
    """
    url = f"{hub.files}/datasets/{source.dataset}/resolve/{source.revision}/"
    async with httpx2.AsyncClient(timeout=TIMEOUTS, headers=hub.headers) as client:
        files = [await until_served(url + path, partial(_head, client, url, path)) for path in source.paths]
    name = source.dataset.replace("/", "__")
    return Origin(name=f"{name}@{source.revision[:12]}", provenance=provenance, url=url, files=tuple(files))


async def _head(client: httpx2.AsyncClient, url: str, path: str) -> OriginFile:
    try:
        response = await client.head(
            url + path
        )  # redirects are not followed: the store behind the hub sends no checksum
    except httpx2.HTTPError as error:
        raise RequestFailed(f"{type(error).__name__}: {error}") from error
    if not response.is_redirect:
        check_status(response)
    digest = response.headers.get("x-linked-etag", "").strip('"')
    size = response.headers.get("x-linked-size", "")
    if not re.fullmatch(r"[0-9a-f]{64}", digest) or not size.isdecimal():
        raise OriginUnavailable(f"{url}{path}: the server sends no SHA-256 and size")
    return OriginFile(path=path, size=int(size), sha256=digest)
