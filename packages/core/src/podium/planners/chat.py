"""A planner that calls a chat model, and the messages that it sends."""

import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from functools import cache
from typing import Any, Literal, get_args

from podium.budget.limits import Remaining, Spend
from podium.errors import ConfigError, PodiumError, WorkerBroken
from podium.plan_text.saved import REQUIRED, SavedPlan
from podium.plan_text.writer import Spelling, keep_text, plan_grammar, plan_schema, write_plan
from podium.planners.planner import Planner, PlanRequest, PlanText
from podium.prompts.prompt import fill, mark_of, read_prompt, tagged
from podium.types.messages import Completion, Constraint, Message, Sampling, usage_or_estimate
from podium.types.outcome import Outcome, Round
from podium.types.plan import Plan
from podium.types.references import renumbered, shown
from podium.types.result import LACK, steps_of
from podium.types.steps import AnyStep, Block, Step, task_of
from podium.usage import Usage
from podium.workers.rates import by_similarity, measured_kinds
from podium.workers.worker import Card, Kind, MeasuredRate, Request, Worker

Show = Literal["cards", "ordinals"]
"""How a prompt describes workers: with their cards, or only by their numbers."""

_SEES = {
    True: "A worker is shown the question, the steps on its access list, and its subtask.",
    False: "A worker is shown only the steps on its access list and its subtask, not the question.",
}


def remembers(card: Card) -> str:
    """Return what a worker is not shown of the conversation; empty if it is shown all of it."""
    if card.memory == "all":
        return ""
    return "is not shown the question" if card.memory == "none" else "is not shown the whole conversation"


MAX_EXAMPLES = 4
"""Maximum number of examples in a prompt, as in the paper."""
MAX_TOOLS = 50
"""Maximum number of the caller's tools that a prompt names."""
MAX_KINDS = 3
"""Maximum number of kinds of which a prompt shows measured rates."""


def repair_feedback(error: PodiumError, *, is_turn: bool) -> str:
    """Return the prompt that asks a planner to repair an invalid plan, or an invalid message of a turn."""
    return fill("repair_turn" if is_turn else "repair", problem=str(error))


def round_feedback(answer: str, *, spelling: Spelling, reason: str = "") -> str:
    """Return the prompt that shows a planner its answer, and asks for another plan or to keep the answer."""
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


def _texts(context: Sequence[tuple[str, int]]) -> str:
    """Return the prompt on the run's named texts; empty if it has none."""
    if not context:
        return ""
    listed = "\n".join(f"- {name} ({characters:,} characters)" for name, characters in context)
    return "\n" + fill("texts", texts=listed, example=context[0][0])


def asked_question(request: PlanRequest) -> str:
    """Return the part of a prompt with the conversation, its question and the named texts."""
    return _conversation(request.query) + _texts(request.context)


def told_left(left: Remaining, prompt: str = "left") -> str:
    """Return the part of a prompt on the remaining budget."""
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
    return fill(prompt, left="; ".join(facts))


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


def _tools(spelling: Spelling, request: PlanRequest) -> str:
    """Return the prompt on the tools of the caller; empty without any."""
    if not request.tools:
        return ""
    shown, more = request.tools[:MAX_TOOLS], len(request.tools) - MAX_TOOLS
    names = ", ".join(" ".join(name.split()) for name in shown) + (f" and {more} more" if more > 0 else "")
    narrow = "" if spelling == "lists" else fill("narrow", tool=json.dumps(shown[0]))
    return _told_of("tools", request.callers, "call", tools=names, narrow=narrow and f" {narrow}")


def _told_of(prompt: str, workers: Sequence[int], verb: str, **values: str) -> str:
    """Return a prompt on some workers; empty if there are none."""
    who = " and ".join(filter(None, (", ".join(map(str, workers[:-1])), *map(str, workers[-1:]))))
    told = f"Worker {who} {verb}s" if len(workers) == 1 else f"Workers {who} {verb}"
    return "\n\n" + fill(prompt, workers=told, **values) if workers else ""


def _card(number: int, card: Card, show: Show, kinds: Sequence[Kind]) -> str:
    if show == "ordinals":
        return f"Worker {number}"
    facts = [card.description or "no description"]
    if card.price is not None:
        facts.append(f"${card.price.input:g} in, ${card.price.output:g} out")
    if card.most_cost is not None:
        facts.append(f"up to ${card.most_cost:g} a call")
    if card.context_window is not None:
        facts.append(f"context of {card.context_window:,} tokens")
    if told := remembers(card):
        facts.append(told)
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
    return "\n".join(["\nExample plans, of other teams:\n", *shown, "Now your own.\n"])


def _with_reasons(text: str, plan: Plan, needs: Sequence[str], spelling: Spelling) -> str:
    """Return a plan with the reason of each step: before its row, or before the whole plan."""
    told = [
        f"Step {index} needs {need}: worker {step.worker}."
        for index, (step, need) in enumerate(zip(plan.calls, needs, strict=True))
    ]
    if spelling != "rows":
        return "\n".join([*told, text])
    return "\n".join(line for pair in zip(told, text.splitlines(), strict=True) for line in pair)


_WORKER = re.compile(r'(?<="worker": )[0-9]+')


def _workflows(spelling: Spelling, request: PlanRequest) -> str:
    """Return the prompt on the keys of workflows, with an example that has workers of this pool."""
    example, workers = read_prompt("workflow.jsonl").strip(), len(request.cards)
    rows = _WORKER.sub(lambda found: str(int(found[0]) % workers), example)
    example = f'{{"steps": [{", ".join(rows.splitlines())}]}}' if spelling == "json" else rows
    told = fill("workflows", example=example, items=request.map_items, turns=request.loop_turns)
    if request.plans:
        told += "\n" + fill("plans", plans="\n".join(map(_saved, request.plans)))
    return "\n\n" + told


def _saved(plan: SavedPlan) -> str:
    """Return the line of the prompt on a saved plan."""
    facts = []
    for name, each in plan.parameters.items():
        default = "" if each.default is REQUIRED else f" = {shown(each.default)}"
        facts.append(f"{name}: {shown(each.short)}{default}")
    said = " ".join(filter(None, (plan.description, plan.when_to_use)))
    return f"- {plan.name}({', '.join(facts)})" + (f": {said}" if said else "")


MAX_EXCERPT = 1_000
"""Maximum number of characters of an output in the prompt, from its beginning."""
_MAX_REASON = 300
"""Maximum number of characters of a failure's reason in the prompt."""


def failure_feedback(plan: Plan, outcomes: Sequence[Outcome], *, spelling: Spelling, may_keep: bool) -> str:
    """Return a prompt with the failed steps, their reasons and the outputs of the other steps."""
    labels = plan.labels
    subtasks = [_task(step, labels) for step in plan.steps]
    reasons = [_reason(plan, outcome, outcomes) for outcome in outcomes]
    excerpts = [_excerpt(outcome.text) for outcome in outcomes]
    mark = mark_of(*subtasks, *reasons, *excerpts)
    failed, paid = "", ""
    for outcome, reason, excerpt in zip(outcomes, reasons, excerpts, strict=True):
        subtask, label = tagged("subtask", mark, subtasks[outcome.step]), labels[outcome.step]
        if outcome.status == "ok":
            paid += f"\nStep {label}:\n{subtask}" + tagged("output", mark, excerpt)
        else:
            failed += f"\nStep {label} ({outcome.status}):\n{subtask}" + tagged("reason", mark, reason)
    nothing = "\nNone.\n"
    keep = f"If nothing better can be done, write {keep_text(spelling)}." if may_keep else ""
    return fill("failed", failed=failed or nothing, paid=paid or nothing, keep=keep)


def _task(step: AnyStep, labels: Sequence[int]) -> str:
    """Return what a step does, with the numbers of the plan's text; `until` names a step of the block."""
    if isinstance(step, Block) and step.until is not None:
        told = _task(replace(step, until=None, most=None), labels)
        return f"{told} (until {step.until}, at most {step.most} turns)"
    return renumbered(task_of(step), lambda index: labels[index])


def turn_feedback(current: Round) -> str:
    """Return the results of a turn's steps, as the planner reads them."""
    told = []
    for outcome in steps_of(current):
        problem = outcome.problem
        if outcome.status != "ok":
            why = "" if problem is None else f": {problem.code}: {problem.message}"
            told.append(f"({outcome.worker} gave no result, {outcome.status}{why})")
        else:
            told.append(outcome.text + ("" if problem is None else f"\n\n{LACK}{problem.message})"))
    if current.planner is not None and current.planner.name == "user":
        told.insert(0, "(A person changed this call before it was made.)")
    return "\n\n".join(told)


def _reason(plan: Plan, outcome: Outcome, outcomes: Sequence[Outcome]) -> str:
    """Return why a step has no output, with the step numbers of the plan's text."""
    problem = outcome.problem
    bad = [seen for seen in plan.steps[outcome.step].access if outcomes[seen].status != "ok"]
    if bad and problem is not None and problem.code == "dependency":
        inputs = ", ".join(f"step {plan.labels[seen]}" for seen in bad)
        return f"dependency: it lacks an input: {inputs} has no output"
    return "" if problem is None else f"{problem.code}: {problem.message}"[:_MAX_REASON]


def _excerpt(text: str) -> str:
    return text if len(text) <= MAX_EXCERPT else text[:MAX_EXCERPT] + "…"


_EXAMPLES: Mapping[Spelling, int] = {"lists": MAX_EXAMPLES, "json": 1, "rows": 1}
"""Default number of examples. For `lists` it is the number with which the paper's conductors were trained."""


class ChatPlanner(Planner):
    """Calls a chat model for the plan.

    If the model's server supports constrained decoding, a grammar makes the model follow the spelling. If the
    server supports no grammars, a JSON schema does this for the spelling `json`.

    Args:
        worker: the worker that calls the model; the planner has the name and the price of this worker.
        spelling: the form of the plan's text. Only with `rows` can a step start while the
            planner writes the next step; the paper's conductors write `lists`.
        show: whether the prompt describes workers by their cards (`cards`), or only by their numbers
            (`ordinals`), for conductors that were trained with numbers.
        examples: number of example plans in the prompt, from 0 to 4; `None` means 4 for
            `lists`, as in the training of the paper's conductors, else 1.
        reasons: ask for a line with the reason of each step before the step, or before the plan if its
            spelling is not `rows`. Decoding is then not constrained, because grammars of plans have no
            reasons.
        workflows: explain typed outputs, maps, conditions, blocks and loops to the model, and let it write
            them, unless a host starts the steps. Plans in `lists` cannot have them.
        constrain: use constrained decoding if the server supports it.
        sampling: the sampling settings; `None` means the worker's.

    Raises:
        ConfigError: `spelling`, `show` or `examples` is invalid, or `workflows` is used with `lists`.
    """

    worker: Worker

    def __init__(  # noqa: PLR0913 - one for each choice of how to ask
        self,
        worker: Worker,
        *,
        spelling: Spelling = "rows",
        show: Show = "cards",
        examples: int | None = None,
        reasons: bool = False,
        workflows: bool = False,
        constrain: bool = True,
        sampling: Sampling | None = None,
    ) -> None:
        _check("spelling", spelling, get_args(Spelling))
        _check("show", show, get_args(Show))
        if examples is not None and (type(examples) is not int or not 0 <= examples <= MAX_EXAMPLES):
            raise ConfigError(f"examples is {examples!r:.40}: use a whole number from 0 to {MAX_EXAMPLES}")
        if workflows and spelling == "lists":
            raise ConfigError("plans in lists cannot have workflows: set spelling to 'rows' or 'json'")
        self.name = worker.card.name
        self.worker = worker
        self.spelling = spelling
        self._show = show
        self._examples = _EXAMPLES[spelling] if examples is None else examples
        self._reasons = reasons
        self.writes_workflows = workflows
        self._constrain = constrain and not reasons
        self._sampling = sampling or Sampling()

    def worst_case(self, request: PlanRequest, answer_tokens: int) -> Spend:
        """Return the maximum that the model's call may spend."""
        return self.worker.worst_case(self._call(request), answer_tokens) or Spend()

    def messages(self, request: PlanRequest) -> tuple[Message, ...]:
        """Return the messages that are sent to the model."""
        spelling, steps = self.spelling, request.asked_steps
        reasons = "reasons_rows" if spelling == "rows" else "reasons"
        task = fill(
            "conductor",
            sees=_SEES[request.shows_question],
            spelling=fill(spelling) + (_workflows(spelling, request) if self.writes_workflows else ""),
            examples=_examples(
                spelling, len(request.cards), steps, count=self._examples, reasons=self._reasons
            ),
            acts=" or its worker acts" if request.acts else "",
            workers=_workers(request, self._show)
            + _told_of("references", request.fills, "read")
            + _told_of("acts", request.acts, "act")
            + _tools(spelling, request),
            question=asked_question(request),
            max_steps=steps,
            left="" if request.left is None else " " + told_left(request.left),
            thoughts=fill(reasons if self._reasons else "thoughts"),
        )
        messages = [Message("system", fill("system")), Message("user", task)]
        for turn in request.turns:
            messages += [Message("assistant", turn.text), Message("user", turn.feedback)]
        if request.done:
            done = fill("done", actions="\n".join(f"- {action}" for action in request.done))
            messages[-1] = Message("user", f"{messages[-1].text}\n\n{done}")
        return tuple(messages)

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Call the model and yield its text."""
        asked, middleware = self._call(request), request.middleware
        call = self.worker.call(asked) if middleware is None else middleware(self.worker, asked)
        async with aclosing(call) as pieces:
            async for piece in pieces:
                yield self._whole(piece, asked) if isinstance(piece, Completion) else piece

    def _call(self, request: PlanRequest) -> Request:
        sampling = self._constrained(request)
        own = sampling.max_tokens or self.worker.max_tokens
        if request.max_tokens is not None and (own is None or request.max_tokens < own):
            sampling = replace(sampling, max_tokens=request.max_tokens)
        return Request(
            messages=self.messages(request),
            sampling=sampling,
            deadline=request.deadline,
            stream=request.stream,
        )

    def _whole(self, completion: Completion, asked: Request) -> PlanText:
        price, usage, cost = self.worker.card.price, completion.usage, completion.cost
        if self.worker.uses_tokens and completion.uses_tokens and (cost is None or usage != Usage()):
            usage = usage_or_estimate(usage, asked.messages, completion.text, completion.tool_calls)
        if cost is None and price is not None:
            cost = price.cost(usage)
        if completion.missing is not None:
            told = f"the text of planner {self.name!r} is incomplete: {completion.missing}"
            raise WorkerBroken(told, maybe_paid=True, usage=usage, cost=cost)
        return PlanText(text=completion.text, finish_reason=completion.finish_reason, usage=usage, cost=cost)

    def _constrained(self, request: PlanRequest) -> Sampling:
        kinds = self.worker.constraint_kinds if self._constrain else frozenset()
        # `asked_steps`, not `max_steps`: a grammar is sent with each call and grows with the square of
        # its steps (rows with 20 workers: 1.5 kB at 5 steps, 29 kB at 32).
        size, steps = len(request.cards), request.asked_steps
        plans = [plan.name for plan in request.plans]
        also: dict[str, Any] = {
            "keep": request.may_keep,
            "workflows": self.writes_workflows,
            "plans": plans,
            "tools": request.tools[:MAX_TOOLS] if request.callers else (),
        }
        constraint = None
        if "grammar" in kinds:  # only a grammar can restrict access lists to earlier steps
            constraint = Constraint("grammar", plan_grammar(self.spelling, size, steps, **also))
        elif self.spelling == "json" and "json" in kinds:
            constraint = Constraint("json", plan_schema(size, steps, **also))
        return self._sampling if constraint is None else replace(self._sampling, constraint=constraint)

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return (self.worker,)


def _check(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{name} is {value!r}: use {' or '.join(map(repr, allowed))}")
