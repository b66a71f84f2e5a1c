"""Writes the messages that ask a chat model for a plan, from a query and the workers' cards."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Literal

from podium.budget.spend import Remaining
from podium.errors import PodiumError
from podium.plan_text.writer import Spelling, keep_text, write_plan
from podium.planners.kind_matcher import by_similarity, measured_kinds
from podium.planners.planner import PlanRequest
from podium.prompts.render import fill, mark_of, read_prompt, tagged
from podium.types.messages import Message
from podium.types.plan import Plan, Step
from podium.workers.measured import Kind, MeasuredRate
from podium.workers.worker import Card

Show = Literal["cards", "ordinals"]
"""How a prompt describes workers: with their cards, or only by their numbers."""

_SEES = {
    True: "Every worker is shown the user's question, the steps on its access list, and its subtask.",
    False: "A worker is shown only the steps on its access list and its subtask, not the user's question.",
}


MAX_EXAMPLES = 4
"""Maximum number of examples in a prompt, as in the paper."""
MAX_KINDS = 3
"""Maximum number of kinds of which a prompt shows measured rates."""


def planner_messages(
    request: PlanRequest, *, spelling: Spelling, show: Show, examples: int, reasons: bool = False
) -> tuple[Message, ...]:
    """Return the messages that ask a chat model for a plan.

    The instructions are first, then the workers, then the question, so that providers' prompt caches
    hit. The instructions are the same for all pools of three or more workers.

    Args:
        request: the request for a plan.
        spelling: the spelling of the plan.
        show: how the workers are described.
        examples: number of example plans, from 0 to `MAX_EXAMPLES`.
        reasons: whether a line with the reason of each step is asked for.
    """
    task = fill(
        "conductor",
        sees=_SEES[request.shows_question],
        spelling=fill(spelling),
        examples=_examples(
            spelling, len(request.cards), request.asked_steps, count=examples, reasons=reasons
        ),
        acts=" or its worker acts" if request.acts else "",
        workers=_workers(request, show) + _references(request.fills) + _acts(request.acts),
        question=_conversation(request.query) + _texts(request.context),
        max_steps=request.asked_steps,
        left="" if request.left is None else _left(request.left),
        thoughts=_thoughts(spelling, reasons=reasons),
    )
    messages = [Message("system", fill("system")), Message("user", task)]
    for turn in request.turns:
        messages += [Message("assistant", turn.text), Message("user", turn.feedback)]
    if request.done:
        done = fill("done", actions="\n".join(f"- {action}" for action in request.done))
        messages[-1] = Message("user", f"{messages[-1].text}\n\n{done}")
    return tuple(messages)


def _thoughts(spelling: Spelling, *, reasons: bool) -> str:
    """Return the prompt on the text before the plan or, for reasons with rows, before each row."""
    if not reasons:
        return fill("thoughts")
    return fill("reasons_rows" if spelling == "rows" else "reasons")


def repair_feedback(error: PodiumError) -> str:
    """Return the prompt that asks a planner to repair an invalid plan."""
    return fill("repair", problem=str(error))


def round_feedback(answer: str, *, spelling: Spelling, reason: str = "") -> str:
    """Return the prompt that shows a planner the answer, and asks for another plan or to keep the answer.

    Args:
        answer: the answer of its plan.
        spelling: the spelling of the planner.
        reason: why `accept` rejected the answer; empty without `accept`.
    """
    keep = keep_text(spelling)
    mark = mark_of(answer, reason)
    told = f"\nIt was judged not good enough, because:\n{tagged('reason', mark, reason)}" if reason else ""
    return fill("again", answer=answer, mark=mark, reason=told, keep=keep)


def _conversation(query: Sequence[Message]) -> str:
    mark = mark_of(*(m.text for m in query))
    *history, question = query
    told = ""
    if history:
        lines = "\n\n".join(f"{m.role}: {m.text}" for m in history)
        told = "THE CONVERSATION SO FAR:\n" + tagged("conversation", mark, lines) + "\n"
    parts = [part for m in query if not isinstance(m.content, str) for part in m.content]
    attached = sum(1 for part in parts if part.get("type") != "text")
    note = f"({attached} attachment(s), shown to workers that take them.)\n" if attached else ""
    return told + "THE USER'S QUESTION:\n" + tagged("question", mark, question.text) + note


def with_texts(request: PlanRequest) -> str:
    """Return the references to all named texts that a planner without a model adds to a subtask."""
    references = ", ".join(f"{{{{{name}}}}}" for name, _ in request.context)
    return f"\nUse {references}." if references else ""


def _texts(context: Sequence[tuple[str, int]]) -> str:
    """Return the prompt on the run's named texts; empty if it has none."""
    if not context:
        return ""
    listed = "\n".join(f"- {name} ({characters:,} characters)" for name, characters in context)
    return "\n" + fill("texts", texts=listed, example=context[0][0])


def _left(left: Remaining) -> str:
    """Return the part of the prompt on the remaining budget."""
    facts = [
        f"{amount:,} {what}"
        for amount, what in (
            (left.steps, "step(s)"),
            (left.calls, "call(s) of workers, those that fail included"),
            (left.input_tokens, "tokens for all that workers read"),
            (left.output_tokens, "tokens for all that they write"),
        )
        if amount is not None
    ]
    facts += [] if left.cost is None else [f"${left.cost:.9f}".rstrip("0").rstrip(".")]
    return " " + fill("left", left="; ".join(facts))


def _workers(request: PlanRequest, show: Show) -> str:
    cards = request.cards
    kinds = _shown_kinds(request)
    lines = [_card(number, card, show, kinds) for number, card in enumerate(cards)]
    if show == "cards" and any(card.price is not None for card in cards):
        lines.append("Prices are per million tokens read (in) and written (out).")
    if show == "cards" and kinds:
        lines.append(_told_of_rates([rate for card in cards for rate in card.measured if rate.kind in kinds]))
    return "\n".join(lines)


def _shown_kinds(request: PlanRequest) -> Sequence[Kind]:
    """Return the kinds whose rates are shown: all, or if there are many, the most similar to the question."""
    kinds = measured_kinds(request.cards)
    if len(kinds) <= MAX_KINDS:
        return kinds
    nearest = by_similarity(request.query[-1].text, kinds)[:MAX_KINDS]
    return [kind for kind, _ in nearest]


def _told_of_rates(rates: Sequence[MeasuredRate]) -> str:
    days = sorted({rate.measured_on for rate in rates})
    when = f"{days[0]}" if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"Percentages: right answers by kind of question, measured on so many answers ({when})."


def _references(workers: Sequence[int]) -> str:
    """Return the prompt on `{{n}}`; empty if all workers read prose."""
    return "\n\n" + fill("references", workers=_named(workers, "read")) if workers else ""


def _acts(workers: Sequence[int]) -> str:
    """Return the prompt on actions; empty if no worker acts."""
    return "\n\n" + fill("acts", workers=_named(workers, "act")) if workers else ""


def _named(workers: Sequence[int], verb: str) -> str:
    who = " and ".join(filter(None, (", ".join(map(str, workers[:-1])), str(workers[-1]))))
    return f"Worker {who} {verb}s" if len(workers) == 1 else f"Workers {who} {verb}"


def _card(number: int, card: Card, show: Show, kinds: Sequence[Kind]) -> str:
    if show == "ordinals":
        return f"Worker {number}"
    facts = [card.description or "no description"]
    if card.price is not None:
        facts.append(f"${card.price.input:g} in, ${card.price.output:g} out")
    if card.context_window is not None:
        facts.append(f"context of {card.context_window:,} tokens")
    if card.parts:
        facts.append("also takes " + ", ".join(sorted(card.parts)))
    shown = [rate for kind in kinds for rate in card.measured if rate.kind == kind]
    if shown:
        facts.append(
            "right on " + ", ".join(f"{rate.kind.name} {rate.rate:.0%} ({rate.answers})" for rate in shown)
        )
    return f"Worker {number}: {card.name}. " + "; ".join(" ".join(fact.split()) for fact in facts)


@cache
def _examples(spelling: Spelling, workers: int, max_steps: int, *, count: int, reasons: bool) -> str:
    """Return up to `count` examples that have at most `max_steps` steps, with workers of this pool."""
    shown: list[str] = []
    for example in json.loads(read_prompt("examples.json")):
        steps = example["plan"]
        if len(steps) <= max_steps and len(shown) < count:
            plan = Plan(
                tuple(
                    Step(
                        step["worker"] % workers,
                        step["subtask"],
                        tuple(range(index)) if step["access"] == "all" else tuple(step["access"]),
                    )
                    for index, step in enumerate(steps)
                )
            )
            text = write_plan(plan, spelling).strip()
            told = f"{example['thought']}\n{text}"
            if reasons:
                told = _with_reasons(text, plan, [step["needs"] for step in steps], spelling)
            shown.append(f"Question: {example['question']}\n{told}\n")
    if not shown:
        return ""
    return "\n".join(["\nExamples, from other teams and other questions:\n", *shown, "Now your own.\n"])


def _with_reasons(text: str, plan: Plan, needs: Sequence[str], spelling: Spelling) -> str:
    """Return a plan with the reason of each step: before its row, or before the whole plan."""
    told = [
        f"Step {index} needs {need}: worker {step.worker}."
        for index, (step, need) in enumerate(zip(plan.steps, needs, strict=True))
    ]
    if spelling != "rows":
        return "\n".join([*told, text])
    return "\n".join(line for pair in zip(told, text.splitlines(), strict=True) for line in pair)
