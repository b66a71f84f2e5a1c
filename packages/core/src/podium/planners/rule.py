"""Planners without a model, which split the question and match its parts to the workers' cards."""

import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from math import inf
from typing import NamedTuple

from podium.errors import PlannerError
from podium.plan_text.literals import words
from podium.plan_text.writer import write_plan
from podium.planners.planner import Planner, PlannerAround, PlanRequest, PlanText
from podium.types.plan import Plan
from podium.types.references import literal
from podium.types.steps import Step
from podium.workers import offline, simple as gather
from podium.workers.offline import computes_quantities, find_expressions
from podium.workers.rates import kind_of, measured_kinds, rate_on
from podium.workers.worker import Card

MAX_READ = 16 * 1024
"""Number of characters of a question that are split; the rest is added to the last part."""

_QUOTED = re.compile(
    r"`[^`\n]{1,500}`|\"[^\"\n]{1,500}\"|“[^“”\n]{1,500}”|(?<!\w)'[^'\n]{1,200}'(?!\w)|\((?![0-9]{1,2}\))[^()\n]{1,500}\)"
)
_LEAD = re.compile(r"[,\s]*(?:(?:and|but|also|then|next|finally|now|so|please)\b,?\s*)*", re.IGNORECASE)
_ASKING = r"(?:who(?:m|se)?|what|which|where|when|why|how)(?:'s|’s)?\b"
_SUMMING = r"(?:add|calculate|compute|divide|multiply|subtract)\b"
_ORDERING = r"(?:compare|describe|explain|find|give|list|search|show|summari[sz]e|tell|translate|write)\b"
_END = re.compile(
    r"(?P<item>(?:^|\n)[ \t]*(?:[-*•]|\(?[0-9]{1,2}[.)])[ \t]+)"
    r"|[?!;]+[\"'”)]*(?=\s)|[。！？；]+|\n(?=[ \t]*\n)|(?:(?<=\w\w\w)|(?<=[0-9)]))\.(?=\s+(?-i:[A-Z(\"“]))"
    rf"|(?P<joint>,?\s(?:and|also|then)\s(?:then |also )?)(?={_ASKING}|{_SUMMING}|{_ORDERING}|[-(]?[0-9])",
    re.IGNORECASE,
)
_ASKS = re.compile(rf"{_ASKING}|{_SUMMING}|{_ORDERING}", re.IGNORECASE)
_SUMS = re.compile(_SUMMING, re.IGNORECASE)
_ORDERS = re.compile(_ORDERING, re.IGNORECASE)
# After "how do I install" or "explain how to read", a bare verb belongs to the same question.
_OPEN = re.compile(r"\b(?:how|to|i|we|you|they|can|could|should|if)\b", re.IGNORECASE)
_BACK = re.compile(
    r"(?:\W*\w+){0,5}?\W+(?:it|its|they|them|the (?:result|answer)|that(?= (?:by|to|from|is)\b|[,.?!]|$))\b",
    re.IGNORECASE,
)


class Part(NamedTuple):
    """One part of a question."""

    text: str
    back: bool = False
    """Whether the part refers to the part before it: "then …", "multiply that by 3"."""


def split(question: str) -> list[Part]:
    """Return the parts of `question` in order, at least one."""
    found: list[str] = []
    statement = ""
    for piece, is_item in _pieces(question[:MAX_READ]):
        statement = f"{statement} {piece}".strip()
        if is_item or _asks(piece):
            found.append(statement)
            statement = ""
    if len(found) < 2:
        return [Part(question.strip())]
    found[-1] = f"{found[-1]} {statement}{question[MAX_READ:]}".strip()
    return [_part(found[0], first=True), *(_part(text, first=False) for text in found[1:])]


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of `text` between its boundaries, each with whether it is a list item."""
    masked = _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), text)
    start, is_item = 0, False
    for end in _END.finditer(masked):
        left, right = text[start : end.start()], text[end.end() : end.end() + 300]
        if end["joint"] and not _apart(left[-300:], right):
            continue
        yield (left if end["item"] or end["joint"] else text[start : end.end()]).strip(), is_item
        start, is_item = end.start() if end["joint"] else end.end(), bool(end["item"])
    yield text[start:].strip(), is_item


def _asks(piece: str) -> bool:
    bare = _LEAD.sub("", piece, count=1)
    return bare.endswith(("?", "？")) or _ASKS.match(bare) is not None or _starts_with_sums(bare)


def _starts_with_sums(text: str) -> bool:
    number = re.match(r"[-(]*[0-9.,]+", text)
    return number is not None and any(sums.startswith(number[0]) for sums in find_expressions(text[:80])[:1])


def _apart(left: str, right: str) -> bool:
    """Return whether the texts before and after an "and" are separate requests."""
    if len(left.split()) < 3 and not find_expressions(left):
        return False
    if right[0] in "-(0123456789":
        return _starts_with_sums(right)
    if len(right.split()) < 3 or (_ORDERS.match(right) and _OPEN.search(left)):
        return False
    return _SUMS.match(right) is not None or not _goes_back(right)


def _goes_back(text: str) -> bool:
    return _BACK.match(f" {text[:120]}") is not None


def _part(text: str, *, first: bool) -> Part:
    bare = _LEAD.sub("", text, count=1).rstrip(",; ") or text
    goes_on = "then" in text[: len(text) - len(bare)].lower() or _goes_back(bare)
    return Part(bare[:1].upper() + bare[1:], back=goes_on and not first)


_READ = 8 * 1024
_CALCULATES = re.compile(r"\b(?:arithmetic|calculat|math)", re.IGNORECASE)
_TOOL = re.compile(r"\b(?:arithmetic|calculat|gather|combin|join|merg|collect|synthesi)", re.IGNORECASE)
_SEARCHES = re.compile(r"\b(?:search|document|retriev|look ?up|passages?\b|corpus|wiki)", re.IGNORECASE)
_GATHERS = re.compile(r"\b(?:gather|combin|join|merg|collect|synthesi)", re.IGNORECASE)
_WRITES = re.compile(r"\b(?:writ|summari|compos|draft)", re.IGNORECASE)
_GENERAL = re.compile(r"\b(?:general|chat|assistant|anything|everything|answers?\b)", re.IGNORECASE)
_CHATS = re.compile(r"\b(?:general|chat|assistant|anything|everything|calculat|math|comput)", re.IGNORECASE)
_LOOKS_UP = re.compile(
    r"\b(?:who|what|where|when|how|why|which|whose|find|look up|search|describe|explain|define|list)\b",
    re.IGNORECASE,
)


Workers = Mapping[int, Card]
"""The workers that a part may go to, by their numbers in the plan."""


class Match(NamedTuple):
    """The worker chosen for a part."""

    worker: int
    why: str
    """The feature of the part that fits the worker's card; empty if no feature fits."""
    alone: bool
    """Whether no other worker fits equally well."""


def _passive(request: PlanRequest) -> Workers:
    """Return the workers that neither act nor are persons: a question alone orders no action."""
    others = {*request.acts, *request.asks}
    return {number: card for number, card in enumerate(request.cards) if number not in others}


def best_fit(part: str, workers: Workers, *, back: bool = False) -> Match | None:
    """Return the worker whose card fits `part` best; if several fit equally, the first."""
    text = part[:_READ]
    able = {number: card for number, card in workers.items() if _can(card, text, back=back)}
    return _best(text, able, back=back) if able else None


def _can(card: Card, text: str, *, back: bool) -> bool:
    """Return whether a worker can do a subtask; Podium's offline workers and search workers cannot do all."""
    if card.description in (gather.Gather.does, gather.Join.does):
        return back
    if card.description == gather.Vote.does:
        return False
    if card.description == offline.CALCULATES:
        return bool(find_expressions(text, that="1" if back else None))
    told = _told(card)
    only_searches = _SEARCHES.search(told) and not (_WRITES.search(told) or _CHATS.search(told))
    return not (only_searches and computes_quantities(text))


def _told(card: Card) -> str:
    return f"{card.name} {card.description[:_READ]}"


def _best(text: str, workers: Workers, *, back: bool) -> Match:
    cards = tuple(workers.values())
    has_calculator = any(card.description == offline.CALCULATES for card in cards)
    kind = None if has_calculator else kind_of(text, measured_kinds(cards))
    if kind is not None:
        rates = {number: rate_on(card, kind) for number, card in workers.items()}
        measured = {number: -1.0 if rate is None else rate.rate for number, rate in rates.items()}
        return _highest(measured, f"its kind {kind.name!r}", by_price=workers)
    told = {number: _told(card) for number, card in workers.items()}
    if find_expressions(text, that="1" if back else None) and any(map(_CALCULATES.search, told.values())):
        if has_calculator:
            fits = {number: card.description == offline.CALCULATES for number, card in workers.items()}
        else:
            fits = {number: bool(_CALCULATES.search(card)) for number, card in told.items()}
        return _highest(fits, "its arithmetic")
    wanted = set(words(text))
    looks_up = 1.5 if _LOOKS_UP.search(text) else 0.0
    scores = {
        number: 0.0
        if _is_tool(card)
        else len(wanted & set(words(card))) + (looks_up if _SEARCHES.search(card) else 0.0)
        for number, card in told.items()
    }
    if any(scores.values()):
        return _highest(scores, "its question" if looks_up else "words of its description")
    return _highest({number: _generality(card) for number, card in told.items()}, "")


def gatherer(workers: Workers) -> Match | None:
    """Return the worker that joins results; `None` if no worker can."""
    for kind in (_GATHERS, _WRITES):
        fits = {number: bool(kind.search(_told(card))) for number, card in workers.items()}
        if any(fits.values()):
            return _highest(fits, "gathering")
    return best_fit("", workers, back=True)


def _is_tool(card: str) -> bool:
    """Return whether a worker has one special task and does not answer questions."""
    return bool(_TOOL.search(card)) and not (_WRITES.search(card) or _GENERAL.search(card))


def _generality(card: str) -> int:
    """Return the rank of a worker: 4 general, 3 writing, 2 other, 1 search, 0 one special task."""
    if _GENERAL.search(card):
        return 4
    if _WRITES.search(card):
        return 3
    return 0 if _is_tool(card) else 1 if _SEARCHES.search(card) else 2


def _highest(scores: Mapping[int, float], why: str, *, by_price: Workers | None = None) -> Match:
    """Return the worker with the highest score; of equal workers the first, or by price the cheapest."""
    highest = max(scores.values())
    best = [number for number, score in scores.items() if score == highest]
    chosen = best[0] if by_price is None else min(best, key=lambda number: _cost(by_price[number]))
    return Match(chosen, why, alone=len(best) == 1)


def _cost(card: Card) -> float:
    return inf if card.price is None else card.price.input + card.price.output


MAX_SUBTASK_CHARS = 8 * 1024
"""Maximum length of a subtask, in characters; longer subtasks are cut, with a note."""

_CUT = " … (cut short here)"
_CUT_SHOWN = " … (cut short here: the rest is in the question)"
_GATHER = "Gather what the steps before returned into one answer to the question, and keep every source."


class RulePlanner(Planner):
    """Plans by rules: one step for each part of the question, then one step that joins the outputs.

    A question is split at list items, at ends of sentences, and at an "and" before a question or an order.
    Each part goes to the worker whose card fits it best; arithmetic goes to a calculator. No part goes to a
    worker that acts (`Worker.acts`), and no person.
    The step of a part sees no other step. There is one exception: if a part refers to the part before it
    ("multiply that by 3"), its step sees the step of that part. A question with one part becomes one step. In
    languages other than English only sentences and list items are split.

    Repairs and further rounds get the same plan again.
    """

    name = "rule"

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Yield the plan, row by row.

        Raises:
            PlannerError: no worker of the pool can do a part; for example, all workers act, or the pool has
                only a calculator and the question has no arithmetic.
        """
        plan, why = _plan(request)
        text = write_plan(plan, "rows")
        if request.stream:
            for row in text.splitlines(keepends=True):
                yield row
        yield PlanText(text=text, why=why, cost=0.0)


def _plan(request: PlanRequest) -> tuple[Plan, str]:
    """Return the plan for a request, and its reason in words."""
    question = request.query[-1].text.strip() or "Answer the question, going by what is attached to it."
    cards, workers = request.cards, _passive(request)
    parts, last = split(question), gatherer(workers)
    most = max(request.asked_steps - 1, 1)  # the last step joins the outputs
    if most == 1 or last is None:
        parts = [Part(question)]
    elif len(parts) > most:
        parts[most - 1 :] = [Part("\n".join(part.text for part in parts[most - 1 :]), parts[most - 1].back)]
    steps, reasons = [], []
    for number, part in enumerate(parts):
        fit = best_fit(part.text, workers, back=part.back)
        if fit is None:
            told = f"no worker can do {part.text[:200]!r}; the workers are {', '.join(c.name for c in cards)}"
            acting = ", ".join(cards[number].name for number in request.acts)
            told += f"; rules choose no worker that acts ({acting})" if acting else ""
            raise PlannerError(told)
        subtask = literal(_shortened(part.text, request)) + _with_texts(request)
        steps.append(Step(fit.worker, subtask, (number - 1,) if part.back else ()))
        reasons.append(f"{cards[fit.worker].name} {_because(fit.why, 'fits better')}")
    if len(parts) == 1 or last is None:
        return Plan(tuple(steps)), f"the question has one part: {reasons[0]}"
    steps.append(Step(last.worker, _GATHER, tuple(range(len(parts)))))
    reasons.append(f"and {cards[last.worker].name} {_because(last.why, 'mentions gathering')}")
    return Plan(tuple(steps)), f"matched {len(parts)} parts: {', '.join(reasons)}"


def _shortened(text: str, request: PlanRequest) -> str:
    note = _CUT_SHOWN if request.shows_question else _CUT
    return text if len(text) <= MAX_SUBTASK_CHARS else text[: MAX_SUBTASK_CHARS - len(note)] + note


def _because(why: str, otherwise: str) -> str:
    return f"for {why}" if why else f"because no description {otherwise}"


MAX_CHARS = 200
"""Maximum length of a question that is sent directly to a worker, in characters."""


class DirectPlanner(PlannerAround):
    """Sends a short question with one part to the worker whose card fits it, without a planner call.

    Other requests go to the other planner. These are long questions, and questions with several parts, lines
    or attachments. They are also repairs, further rounds, and questions that fit no card, or several cards
    equally if no worker is named for these.

    Args:
        planner: plans all other requests.
        worker: name of the worker that gets a simple question that fits several cards equally; `None` for
            the other planner.
    """

    def __init__(self, planner: Planner, worker: str | None = None) -> None:
        super().__init__(planner, "direct")
        self._otherwise = worker

    def known(self, request: PlanRequest) -> PlanText | None:
        """Return a plan with one step; `None` if the other planner must plan the request."""
        question = request.query[-1].text.strip()
        workers = _passive(request)
        fit = best_fit(question, workers)
        if fit is None or not _is_simple(question, request):
            return None
        names = [card.name for card in request.cards]
        if fit.alone:
            worker, reason = fit.worker, "whose description fits it best"
        elif self._otherwise in [card.name for card in workers.values()]:
            worker, reason = names.index(self._otherwise), "the worker for simple questions"
        else:
            return None
        if len(names) == 1:
            reason = "the only worker"
        subtask = f"Answer this question: {literal(question)}{_with_texts(request)}"
        text = write_plan(Plan((Step(worker, subtask),)), "rows")
        why = f"one short question without parts; sent to {names[worker]!r}, {reason}"
        return PlanText(text=text, why=why, cost=0.0)


def _with_texts(request: PlanRequest) -> str:
    """Return the references to all named texts of a run, for a subtask."""
    references = ", ".join(f"{{{{{name}}}}}" for name, _ in request.context)
    return f"\nUse {references}." if references else ""


def _is_simple(question: str, request: PlanRequest) -> bool:
    plain = all(isinstance(message.content, str) for message in request.query)
    short = 0 < len(question) <= MAX_CHARS and "\n" not in question
    return plain and short and not request.turns and len(split(question)) == 1
