"""Finds the final answer in a model's text, which may also have reasoning and marks around the answer."""

import re

_TAG = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT = re.compile(r"\A.*</think>", re.DOTALL)
_SAID = re.compile(
    r"(?:final answer|the answer|answer|result)\s*(?:\*\*)?\s*(?:is|:|=)\s*:?\s*(?:\*\*)?\s*([^\n]+)",
    re.IGNORECASE,
)


def final_answer(text: str) -> str:
    r"""Return the final answer in a text: the last marked answer; without a mark, the whole text.

    The marks, by precedence: `<answer>…</answer>`, `\boxed{…}`, and a line such as
    `The answer is …` or `Answer: …`. Text before `</think>` is left out.
    """
    if _TAG.search(text):
        return tagged_answer(text)
    text = without_thoughts(text)
    if (boxed := _last_boxed(text)) is not None:
        return boxed.strip()
    said = _SAID.findall(text)
    return _bare(said[-1]) if said else text


def is_marked(text: str) -> bool:
    """Return whether a text has an answer in a tag or in a box."""
    return _TAG.search(text) is not None or _last_boxed(without_thoughts(text)) is not None


def without_thoughts(text: str) -> str:
    """Return a text without the part before `</think>`."""
    return _THOUGHT.sub("", text).strip()


def tagged_answer(text: str) -> str:
    """Return the content of the last `<answer>…</answer>` in a text; without such a tag, the whole text.

    Use this function for answers of several lines, such as grids. `final_answer` may return only their first
    line.
    """
    text = without_thoughts(text)
    tags = _TAG.findall(text)
    return str(tags[-1]).strip() if tags else text


def _last_boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{…}`, including inner braces; `None` if there is no such box."""
    start = max(text.rfind("\\boxed{"), text.rfind("\\fbox{"))
    if start < 0:
        return None
    begin = text.index("{", start) + 1
    depth = 1
    for at in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if not depth:
            return text[begin:at]
    return None


def _bare(said: str) -> str:
    """Return an answer from a sentence, without the marks around the answer."""
    return said.strip().strip("*`").removesuffix(".").strip("*` ")
