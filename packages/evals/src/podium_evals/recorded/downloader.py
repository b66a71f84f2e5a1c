"""Downloads the files of an origin: several at the same time, with resumed downloads and checksums."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
from platformdirs import user_cache_path

from podium.config.source import why_unwritable
from podium_evals.errors import ChecksumMismatch, OriginUnavailable
from podium_evals.recorded.attempts import TIMEOUTS, RequestFailed, check_status, until_served
from podium_evals.recorded.origins import Origin, OriginFile
from podium_evals.task_failures import first_failure

AT_ONCE = 4
"""Number of files that are downloaded at the same time."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a download."""

    files: int
    """Number of complete files."""
    of_files: int
    bytes: int
    """Their size."""
    of_bytes: int


def default_folder() -> Path:
    """Return the folder for downloads: `podium/evals` in the user's cache folder."""
    return user_cache_path("podium", appauthor=False) / "evals"


async def download(
    origin: Origin,
    folder: Path | None = None,
    *,
    on_progress: Callable[[Progress], None] | None = None,
) -> Path:
    """Download the missing files of an origin, and check all of its files.

    An interrupted download continues where it stopped, also in another process.

    Args:
        origin: the files.
        folder: the folder of downloads; `None` is the default folder. The files are in a subfolder with the
            origin's name.
        on_progress: called after each file.

    Returns:
        The origin's folder.

    Raises:
        OriginUnavailable: a file is not served, or the connection fails again and again.
        ChecksumMismatch: a file has another checksum than listed.
    """
    target = (folder or default_folder()) / origin.name
    done = list[OriginFile]()
    slots = anyio.CapacityLimiter(AT_ONCE)

    async def one(file: OriginFile) -> None:
        async with slots:
            await _Download(client, origin.url_of(file), file, target / file.path).run()
        done.append(file)
        if on_progress is not None:
            on_progress(
                Progress(
                    len(done),
                    len(origin.files),
                    sum(each.size for each in done),
                    sum(each.size for each in origin.files),
                )
            )

    with first_failure():
        async with (
            httpx2.AsyncClient(timeout=TIMEOUTS, follow_redirects=True) as client,
            anyio.create_task_group() as group,
        ):
            for file in origin.files:
                group.start_soon(one, file)
    return target


@dataclass(slots=True)
class _Download:
    """The download of one file."""

    client: httpx2.AsyncClient
    url: str
    file: OriginFile
    target: Path

    @property
    def part(self) -> Path:
        """The file with the bytes that have arrived so far."""
        return self.target.with_name(self.target.name + ".part")

    async def run(self) -> None:
        """Download the file unless it is complete."""
        if await anyio.to_thread.run_sync(_digest, self.target) == self.file.sha256:
            return
        try:
            self.target.parent.mkdir(parents=True, exist_ok=True)
            await self._until_whole()
            await anyio.to_thread.run_sync(self._finish)
        except OSError as error:
            raise OriginUnavailable(f"{self.target} cannot be written: {why_unwritable(error)}") from error

    async def _until_whole(self) -> None:
        while _size(self.part) < self.file.size:
            await until_served(self.url, self._go_on)

    async def _go_on(self) -> None:
        arrived = _size(self.part)
        try:
            await self._request(arrived)
        except RequestFailed as failed:
            failed.progressed = _size(self.part) > arrived
            raise

    async def _request(self, arrived: int) -> None:
        """Request the missing bytes, and append them."""
        headers = {"Accept-Encoding": "identity"}  # ranges and checksums are about the uncompressed bytes
        if arrived:
            headers["Range"] = f"bytes={arrived}-"
        try:
            async with self.client.stream("GET", self.url, headers=headers) as response:
                self._check_status(response)
                resumes = response.status_code == 206
                if resumes and not response.headers.get("content-range", "").startswith(f"bytes {arrived}-"):
                    raise RequestFailed("the server sent another range than requested")
                await self._append(response, resumes=resumes)
        except httpx2.HTTPError as error:
            raise RequestFailed(f"{type(error).__name__}: {error}") from error

    async def _append(self, response: httpx2.Response, *, resumes: bool) -> None:
        async with await anyio.open_file(self.part, "ab" if resumes else "wb") as part:
            async for piece in response.aiter_raw():
                await part.write(piece)
                if await part.tell() > self.file.size:
                    break  # the checksum will show it
        if _size(self.part) < self.file.size and response.status_code == 200:
            raise RequestFailed("the server sent less than the whole file")

    def _check_status(self, response: httpx2.Response) -> None:
        if response.status_code == 416:
            self.part.unlink(missing_ok=True)
            raise RequestFailed("the server has no such range")
        check_status(response)

    def _finish(self) -> None:
        found = _digest(self.part)
        if found != self.file.sha256:
            self.part.unlink()
            raise ChecksumMismatch(f"{self.url} has the SHA-256 {found}, but {self.file.sha256} is listed")
        with self.part.open("rb+") as part:
            os.fsync(part.fileno())
        self.part.replace(self.target)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _digest(path: Path) -> str:
    """Return the checksum of a file; empty if there is no file."""
    if not path.exists():
        return ""
    digest = sha256()
    with path.open("rb") as file:
        while piece := file.read(2**20):
            digest.update(piece)
    return digest.hexdigest()
