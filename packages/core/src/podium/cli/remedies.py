"""Advice below an error message: what to change in `podium.toml` or on the command line."""

from collections.abc import Iterator

from podium.errors import JournalError, JournalVersion, PlannerError, PodiumError

_EXCERPT = 200
"""Longest excerpt of a planner's text, in characters."""


def remedies(error: PodiumError) -> Iterator[str]:
    """Yield the lines that follow the message of an error."""
    if error.code in (JournalError.code, JournalVersion.code):  # not the errors about one run
        do = "name another file with" if isinstance(error, JournalVersion) else "check"
        yield f"{do} `path` in [journal] of podium.toml, or `url`; `podium run --no-journal` records nothing"
    if isinstance(error, PlannerError) and error.code == "planner_unusable":
        yield from _of_unusable(error)


def _of_unusable(error: PlannerError) -> Iterator[str]:
    own = [call for call in error.calls if call.role != "fallback"]
    written = next((call for call in reversed(own) if call.text.strip()), None)
    if written is not None:
        text = " ".join(written.text.split())
        cut = "…" if len(text) > _EXCERPT else ""
        yield f"the text of planner {written.planner!r} begins: {text[:_EXCERPT]}{cut}"
    if any(call.problem is not None and call.problem.code == "truncated" for call in own):
        yield "raise `max_tokens` in `sampling` of [planner]"
    if len(own) == len(error.calls):  # else there is a fallback planner, and it failed too
        yield 'let another worker plan (`worker` in [planner]), or let rules plan then (`fallback = "rule"`)'
