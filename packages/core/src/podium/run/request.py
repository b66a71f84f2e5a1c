"""Creates a `RunRequest` from the arguments of a conductor's methods, and validates them."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack, get_args
from uuid import uuid4

from podium.budget.limits import Limits
from podium.errors import ConfigError, LimitExceeded, PlanInvalid, QueryError
from podium.execution.context import (
    ConductorSettings,
    Host,
    RunRequest,
    current_call,
    outer_run,
)
from podium.execution.retry import OnFailure
from podium.journal.cache import Cache
from podium.journal.journal import Journal, check_id
from podium.plan_text.saved import SavedPlan, written_out
from podium.planners.planner import Planner
from podium.policy import Policy
from podium.policy.rules import answer_key
from podium.prompts.output import BadOutput, output_in
from podium.prompts.prompt import check_names
from podium.run_state.paid import PaidResults, divided
from podium.secrets import scrub
from podium.types.messages import (
    INSTRUCTING,
    Message,
    Part,
    Query,
    Sampling,
    Tools,
    read_conversation,
    storable,
)
from podium.types.plan import Plan, check_name
from podium.types.references import names_in
from podium.types.steps import Step
from podium.workers.person import PersonWorker
from podium.workers.pool import Pool
from podium.workers.worker import CallMiddleware, Card, Worker

Asked = Query | Plan | SavedPlan
"""What a run answers, or carries out."""


class _Options(TypedDict, total=False):
    policy: Policy | None
    """Applies in addition to the conductor's policy; none by default. It is not recorded, so a resumed run
    needs it again."""
    limits: Limits | None
    """Replace the conductor's limits for this run, and the recorded limits of a run that is resumed, also of
    one with the same id; they are recorded. Earlier spending counts against them, and answers that lower
    limits have cut are asked for again. By default, the limits of the conductor apply. A resumed run then
    keeps the recorded limits of the whole run (rounds, steps, calls, tokens, cost, seconds)."""
    allows: Callable[[float], Awaitable[None]] | None
    """Called before each call of a worker or planner, with what this execution of the run has spent so far in
    USD; raises `LimitExceeded` if no further call may start. By default, only the limits decide."""
    journal: Journal | None
    """Records the run; by default the conductor's journal."""
    paid_results: PaidResults | None
    """Results that are already paid for, which the run reuses; none by default. A resumed run takes only
    their actions."""
    middleware: CallMiddleware | None
    """Wraps each call of a worker, and of a planner's model; none by default."""
    host: Host | None
    """Shows the steps in a framework, carries out calls and asks people there; none by default."""


class RunOptions(_Options, total=False):
    """Optional keyword arguments of `run`, `stream` and `run_sync`."""

    args: Mapping[str, Any]
    """The arguments of a saved plan, by the names of its parameters. None by default."""

    run_id: str | None
    """The run's id in the journal; by default a new id. Two calls with the same id and query are one run:
    the second call waits for the first, or resumes it if it was interrupted."""
    is_new_id: bool
    """Whether `run_id` was generated for this run, so that no earlier call has used it. The run then does not
    wait until its begin is recorded. `True` without `run_id`, else `False` by default."""
    context: Mapping[str, str]
    """Named texts: a worker sees the texts that its subtask names, as in `{{contract}}`. The
    planner sees names and lengths. The texts have the labels of the query. None by default."""
    labels: Iterable[str]
    """Properties of the query that the policy's rules refer to; none by default. The labels of the messages
    of a conversation are added (`Message.labels`)."""
    asker: str
    """Whose conversation it is: an assistant's text without labels has the labels of an equal answer to the
    same asker. Empty by default."""
    client: Mapping[str, Any] | None
    """What a host keeps of its own request, as plain JSON: the record of the run has it, and no other part
    reads it. None by default."""
    user: str
    """Who asked, in the words of the host, such as the id of an end user: the record of the run has it. Empty
    by default."""
    uses_cache: bool
    """Whether the run may reuse answers from the conductor's cache and store answers there; `True` by
    default."""
    forecast: bool
    """Whether the result compares the first plan with its forecast; `False` by default."""
    tools: Tools | Sequence[Part]
    """Tools for the workers that support tools. `Result.tool_calls` has the calls of all steps that wait for
    their results; the caller executes them. None by default."""
    sampling: Sampling
    """Overrides the sampling settings of the worker of the plan's last step."""


class ResumeOptions(_Options, total=False):
    """Optional keyword arguments of `resume`."""

    plan: Plan | None
    """Replaces the plan of the last round; a step that is equal to an earlier step, and has equal inputs,
    keeps its output. By default the plan stays."""
    refresh: bool
    """Whether to repeat steps that ended `ok` without an input that exists by now, and the steps that depend
    on them. Steps of workers that are not safe to repeat are never repeated. With `False`, the default, such
    results are kept, and the run stays `partial`."""
    force: bool
    """Whether to resume also a run that raised `RunDead`; `False` by default."""


def new_request(
    settings: ConductorSettings,
    asked: Query | Plan | SavedPlan,
    *,
    stream: bool,
    **options: Unpack[RunOptions],
) -> RunRequest:
    """Return the request for a new run."""
    given: dict[str, Any] = {**options}
    args = given.pop("args", None)
    own = settings.planner.saved
    if isinstance(asked, SavedPlan):
        asked = asked.plan(asked.arguments(args or {}), settings.pool.names)
    elif own is not None and not isinstance(asked, Plan):
        said, _ = read_conversation(asked)
        args = own.arguments_of(said[-1].text) if args is None else own.arguments(args)
        asked = replace(own.plan(args, settings.pool.names), query=said)
    elif args is not None:
        raise ConfigError("args are given, and no saved plan: leave them out, or load a plan with load_plan")
    run_id = given.pop("run_id", None)
    if run_id is not None:
        check_id(run_id)
        journal_of(settings, options.get("journal"))
    tools = given.pop("tools", ())
    tools = tools if isinstance(tools, Tools) else Tools(tuple(tools))
    query, tool_messages = (asked.query, ()) if isinstance(asked, Plan) else read_conversation(asked)
    if settings.verbatim is None:  # the calls of a step are shown to this step alone
        before, query = divided(query, called_in(options.get("paid_results")))
        tool_messages = (*before, *tool_messages)
    request = RunRequest(
        run_id=run_id or uuid4().hex,
        is_new_id=given.pop("is_new_id", False) or run_id is None,
        query=query,
        context=_checked_texts(given.pop("context", {})),
        plan=asked if isinstance(asked, Plan) else None,
        labels=checked_labels(given.pop("labels", ())) | settings.labels,
        tools=tools if tools.offered else None,
        tool_messages=tool_messages,
        stream=stream,
        **given,
    )
    rules = policy_of(settings, request)
    if request.policy is not None:
        rules.fit(settings.pool.cards, settings.parties)
    rules.check_labels(request.labels, settings.parties)
    _check_turns(settings, rules)
    if settings.planner.rounds is not None:
        given = {
            "tools": request.tools,
            "tool results": tool_messages,
            "a schema": request.sampling.constraint,
        }
        for what in (name for name, value in given.items() if value):
            told = f"planner {settings.planner.name!r} speaks turn by turn and writes the answer itself"
            raise ConfigError(f"{told}: leave out {what}")
    return _with_checked_plan(within_call(request), settings)


def _check_turns(settings: ConductorSettings, rules: Policy) -> None:
    """Raise `ConfigError` for settings that need whole plans, if the planner speaks turn by turn."""
    fallback = settings.fallback_planner
    if fallback is not None and fallback.rounds is not None:
        raise ConfigError(f"fallback planner {fallback.name!r} speaks turn by turn: it cannot be a fallback")
    if settings.planner.rounds is not None and rules.relates_steps:
        told = "the policy's required and apart are rules for whole plans"
        raise ConfigError(f"{told}, and planner {settings.planner.name!r} speaks turn by turn")


def resumed_request(
    settings: ConductorSettings, run_id: str, *, stream: bool, **options: Unpack[ResumeOptions]
) -> RunRequest:
    """Return the request for a recorded run."""
    journal_of(settings, options.get("journal"))
    request = RunRequest(run_id=run_id, resumes=True, stream=stream, **options)
    if request.policy is not None:
        policy_of(settings, request).fit(settings.pool.cards, settings.parties)
    if (plan := request.plan) is not None:
        limits = request.limits or settings.limits
        plan = written_out(plan, settings.plans, settings.pool.names, depth=limits.depth)
        plan.fit(len(settings.pool), limits.plan_steps)
    return within_call(replace(request, plan=plan))


def policy_of(settings: ConductorSettings, request: RunRequest) -> Policy:
    """Return the policies of a conductor and of a request."""
    return settings.policy if request.policy is None else request.policy & settings.policy


def called_in(paid_results: PaidResults | None) -> frozenset[str]:
    """Return the ids of the calls of the caller's tools that the steps of an earlier run have made."""
    return frozenset() if paid_results is None else paid_results.called


async def with_labels_of_conversation(
    request: RunRequest, pool: Pool, journal: Journal | None, policy: Policy
) -> RunRequest:
    """Return the request with the labels of all texts of its conversation, except those of the system."""
    if request.resumes or request.caller is not None:
        return request
    asker, answers = request.asker, pool.answers
    others = divided(request.tool_messages, called_in(request.paid_results))[1]
    said = [each for each in (*request.query, *others) if each.role not in INSTRUCTING]
    said += [Message("user", text) for text in request.context.values()]
    labels = request.labels.union(
        *(each.labels or () for each in said), *(answers.inside(asker, each.text) for each in said)
    )
    read = [(answer_key(asker, each.text, each.tool_calls), each) for each in said if each.labels is None]
    keys = {key for key, _ in read} - {""}
    own = {key for key, each in read if each.role == "assistant"} & keys
    found = answers.find(keys)
    if journal is not None and (missing := (keys if policy.has_rules else own) - found.keys()):
        found = {**found, **await journal.answer_labels(missing)}
    labels = labels.union(*found.values(), policy.unknown_labels if own - found.keys() else ())
    if request.plan is not None and labels != request.labels:
        policy.verify(request.plan, pool.cards, labels)
    return replace(request, labels=labels)


def checked_plan(
    plan: Plan, settings: ConductorSettings, request: RunRequest, *, previous: bool = False
) -> Plan:
    """Return a plan with the steps of the saved plans that it names, checked; raise `PlanInvalid`."""
    limits, pool = request.limits or settings.limits, settings.pool
    plan = written_out(plan, settings.plans, pool.names, depth=limits.depth)
    plan.fit(len(pool), limits.plan_steps, previous=previous)
    plan.check_types(settings.pool.forms)
    plan.check_sizes(limits.items, limits.turns)
    saved = "" if plan.parameters is None else f"plan {plan.name}".strip()
    check_names(plan.steps, request.context, plan.parameters or (), saved)
    for step in plan.calls:
        _check_question(pool.workers[step.worker], step)
        _check_tools(step, request.tools)
    return plan


def _check_tools(step: Step, tools: Tools | None) -> None:
    """Raise `PlanInvalid` if a step names a tool that the caller, who offers tools, does not offer."""
    if tools is not None and (others := sorted({*(step.tools or ())} - {*tools.names})):
        told = f"the step {step.subtask!r:.80} names the tool {others[0]!r:.80}"
        raise PlanInvalid("unknown_tool", f"{told}: the tools are {', '.join(tools.names):.300}")


def _check_question(worker: Worker, step: Step) -> None:
    """Raise `PlanInvalid` if a step asks a person for a type that an answer of the settings does not have."""
    returns = step.returns or worker.card.returns
    if not isinstance(worker, PersonWorker) or returns is None:
        return
    for said in filter(None, (*worker.choices, worker.otherwise)):
        try:
            output_in(said, returns, None)
        except BadOutput as error:
            told = (
                f"the step {step.subtask!r:.80} asks {worker.card.name!r}, whose answer {said!r:.80} {error}"
            )
            raise PlanInvalid(
                "bad_returns", f"{told}: leave out its `returns`, or ask another worker"
            ) from error


def _with_checked_plan(request: RunRequest, settings: ConductorSettings) -> RunRequest:
    """Check the request's plan, if it has one; return the request with the policy's changes of the plan."""
    plan, pool = request.plan, settings.pool
    rules = policy_of(settings, request)
    cards = [card for card in pool.cards if rules.admits(card, request.labels)]
    _check_attachments((*request.query, *request.tool_messages), cards if settings.show_question else ())
    if plan is None:
        return request
    plan = checked_plan(plan, settings, request)
    return replace(request, plan=plan if rules.silent else rules.check(plan, pool.cards, request.labels))


_SPOKEN = ("refusal", "thinking", "redacted_thinking", "reasoning")
"""Parts of an assistant's message that no worker needs to be shown."""


def _check_attachments(query: Sequence[Message], cards: Sequence[Card]) -> None:
    """Raise `QueryError` if a message has a part, such as an image, that none of the workers accepts."""
    kinds = {
        str(part.get("type"))
        for message in query
        if not isinstance(message.content, str)
        for part in message.content
        if message.role != "assistant" or part.get("type") not in _SPOKEN
    }
    if unseen := sorted(kinds - {"text"}.union(*(card.parts for card in cards))):
        raise QueryError(
            f"the conversation has a part of type {unseen[0]!r:.80}, and no worker can be shown it: "
            f"add {unseen[0]!r:.80} to the `parts` of a worker whose model accepts it, or leave the part out"
        )


def checked_labels(labels: Iterable[str]) -> frozenset[str]:
    """Return the labels that a caller gives to a query."""
    given: object = labels  # untyped callers may pass other values
    if isinstance(given, str):
        raise ConfigError(f"labels are {given!r:.80}: give a set of texts, as in {{{given!r:.80}}}")
    if not isinstance(given, Iterable):
        raise ConfigError(f"labels are a {type(given).__name__}: give a set of texts")
    read = frozenset[object](given)
    if wrong := sorted({type(label).__name__ for label in read if not isinstance(label, str)}):
        raise ConfigError(f"labels have values of type {', '.join(wrong)}: give texts")
    return frozenset(check_name(label, "a label") for label in read if isinstance(label, str))


def _checked_texts(context: Mapping[str, str]) -> dict[str, str]:
    for name, text in context.items():
        if names_in(f"{{{{{name}}}}}") != (name,):
            form = "at most 64 letters, digits and _, with a letter or _ first, and no name like step_1"
            raise ConfigError(f"context has the invalid name {name!r:.80}: write {form}")
        given: object = text
        if not isinstance(given, str):
            raise ConfigError(f"context[{name!r}] is a {type(given).__name__}: give text")
    return {name: storable(text) for name, text in context.items()}


def within_call(request: RunRequest) -> RunRequest:
    """Return the request, nested in the call that it answers, or else whose worker runs this code."""
    caller = request.caller or current_call()
    if caller is None or (outer := outer_run(caller)) is None:
        return request
    around, limit = outer.context, outer.context.ledger.limits.depth
    if around.depth + 1 >= limit:
        raise LimitExceeded("depth", f"conductors may nest {limit} deep: raise Limits.depth for more")
    policy = request.policy
    if not around.policy.silent:
        policy = around.policy.everywhere if policy is None else policy & around.policy.everywhere
    return replace(
        request,
        within=None if request.caller else caller,
        labels=request.labels | caller.labels,
        policy=policy,
        uses_cache=request.uses_cache and around.request.uses_cache,
    )


def journal_of(settings: ConductorSettings, given: Journal | None) -> Journal:
    """Return the journal that records a run."""
    journal = given or settings.journal
    if journal is None:
        raise ConfigError("the conductor has no journal: set one, as in Conductor(..., journal=SqlJournal())")
    return journal


_LOG = logging.getLogger("podium")


def check_planner(planner: object) -> None:
    """Raise `ConfigError` unless this is a planner with a name."""
    if not isinstance(planner, Planner):
        host = "make one of a framework's model with as_planner(...) of its package"
        hint = "wrap it in a ChatPlanner" if isinstance(planner, Worker) else host
        raise ConfigError(f"{scrub(repr(planner)):.80} is not a planner: {hint}")
    if not isinstance(getattr(planner, "name", None), str):
        raise ConfigError(f'{type(planner).__name__} has no name: set `name = "..."` on the class')


def check_settings(settings: ConductorSettings) -> None:
    """Raise `ConfigError` for settings that would stop a run after it has started."""
    if settings.on_failure not in get_args(OnFailure):
        values = ", ".join(map(repr, get_args(OnFailure)))
        raise ConfigError(f"on_failure is {settings.on_failure!r}: write one of {values}")
    cache: object = settings.cache
    if not isinstance(cache, Cache | None) and cache != "run":
        told = "write 'run', or a cache of podium.journal, such as MemoryCache() for this process"
        raise ConfigError(f"cache is {cache!r:.80}: {told}")
    settings.retry.check(settings.pool)
    settings.policy.fit(settings.pool.cards, settings.parties)
    settings.policy.check_labels(settings.labels, settings.parties)
    _check_turns(settings, settings.policy)


def logged_warnings(planner: Planner, pool: Pool) -> tuple[str, ...]:
    """Return the planner's warnings about this pool, after they are logged."""
    warnings = tuple(planner.warnings(pool.workers))
    for warning in warnings:
        _LOG.warning("planner %r: %s", planner.name, warning)
    return warnings
