"""A plan as a workflow of Agent Framework's.

Each step is an executor, which is sent what its step may see. A workflow has no limits, policy,
retries or journal, but events and checkpoints of its own.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from agent_framework import (
    AgentResponse,
    Executor,
    Message,
    Workflow,
    WorkflowBuilder,
    WorkflowContext,
    handler,
    normalize_messages,
)

from autogen_podium.agent_framework.messages import from_framework, write_usage
from autogen_podium.agent_framework.wrap import Participant, as_worker
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.prompts import mentioned, step_input, worker_messages
from podium.types import Completion, Plan, Step, read_query
from podium.usage import Usage
from podium.workers import Request, VisibleStep, Worker, complete

_QUESTION: Final = "podium_question"
"""Key in the workflow's state of the conversation."""
StepOutput: TypeAlias = dict[str, Any]
"""The output of a step, as later steps are sent it: plain JSON, which any checkpoint storage keeps."""


class QuestionExecutor(Executor):
    """Keeps the question in the workflow's state, and starts the steps that see no other."""

    def __init__(self) -> None:
        super().__init__(id="question")

    @handler
    async def ask(self, text: str, ctx: WorkflowContext[StepOutput]) -> None:
        """Take a question as text."""
        await self.converse(normalize_messages(text), ctx)

    @handler
    async def converse(self, messages: list[Message], ctx: WorkflowContext[StepOutput]) -> None:
        """Take a conversation.

        Raises:
            QueryError: it holds no question.
        """
        read_query(list(from_framework(messages, None)))
        ctx.set_state(_QUESTION, messages)
        await ctx.send_message({})


class StepExecutor(Executor):
    """Does one step of a plan. Its response is an output of the workflow.

    Args:
        index: the step's number in the plan, from 0.
        step: the step.
        worker: does the subtask.
    """

    def __init__(self, index: int, step: Step, worker: Worker) -> None:
        super().__init__(id=f"step_{index}")
        self._index = index
        self._step = step
        self._worker = worker

    @handler
    async def do(self, seen: StepOutput, ctx: WorkflowContext[StepOutput, AgentResponse[Any]]) -> None:
        """Do a step that sees one other, or none."""
        await self._do([seen] if seen else [], ctx)

    @handler
    async def join(
        self, seen: list[StepOutput], ctx: WorkflowContext[StepOutput, AgentResponse[Any]]
    ) -> None:
        """Do a step that sees several others."""
        await self._do(seen, ctx)

    async def _do(self, seen: list[StepOutput], ctx: WorkflowContext[StepOutput, AgentResponse[Any]]) -> None:
        by_step = {one["step"]: one for one in seen}
        visible = tuple(_visible(by_step[step]) for step in self._step.access)
        query = read_query(list(from_framework(ctx.get_state(_QUESTION), None)))
        shown = step_input(self._worker, self._step, visible, query)
        async with self._worker:
            messages = worker_messages(shown, self._worker.card)
            completion = await complete(self._worker, Request(messages=messages, step_input=shown))
        await ctx.yield_output(self._response(completion))
        labels = {one.step: one.label for one in visible if one.label is not None}
        label = self._index if self._step.label is None else self._step.label
        told = {"subtask": mentioned(self._step.subtask, labels), "output": completion.text}
        await ctx.send_message({"step": self._index, "label": label, **told})

    def _response(self, completion: Completion) -> AgentResponse[Any]:
        name, facts = self._worker.card.name, {"podium_step": self._index}
        missing = {} if completion.missing is None else {"podium_missing": completion.missing}
        return AgentResponse(
            messages=[Message("assistant", [completion.text], author_name=name)],
            agent_id=self.id,
            finish_reason="length" if completion.finish_reason == "length" else "stop",
            usage_details=None if completion.usage == Usage() else write_usage(completion.usage),
            additional_properties={**facts, **missing},
        )


def _visible(output: StepOutput) -> VisibleStep:
    return VisibleStep(output["step"], output["subtask"], output["output"], label=output["label"])


def to_workflow(plan: Plan, participants: Sequence[Participant] | Conductor, **options: Any) -> Workflow:
    """Return a plan as a `Workflow`. Run it with the question, as text or messages.

    Its executors are `question`, `step_0`, `step_1`, …; the response of the last step is its output,
    those of the others are intermediate outputs. Steps whose output no step may see are left out, as in
    a run. A workflow runs in supersteps: a step starts once all steps that began with those it sees have
    ended. A run goes on from a checkpoint in any workflow of the same plan and `name`.

    Args:
        plan: the plan; its workers are numbers of `participants`.
        participants: do the steps, as for `ConductorAgent`; or the conductor whose plan it is.
        options: further options of `WorkflowBuilder`: `name`, `checkpoint_storage`, …

    Raises:
        PlanInvalid: the plan does not fit the participants.
        ConfigError: a step starts before all steps that it sees have ended, which no workflow can.
    """
    given = participants.pool.workers if isinstance(participants, Conductor) else participants
    workers: list[Worker] = [as_worker(participant) for participant in given]
    plan.fit(len(workers), len(plan.steps))
    steps = dict[int, StepExecutor]()
    for index in sorted(plan.needed):
        step = plan.steps[index]
        if step.enough is not None:
            told = f"step {index} starts once {step.enough} of the {len(step.access)} it sees have ended"
            raise ConfigError(f"{told}: a workflow waits for all, so plan it without `enough`")
        steps[index] = StepExecutor(index, step, workers[step.worker])
    question, last = QuestionExecutor(), steps[max(steps)]
    outputs: dict[str, Any] = {"output_from": [last], "intermediate_output_from": "all_other"}
    builder = WorkflowBuilder(start_executor=question, **{**outputs, **options})
    for index, executor in steps.items():
        access = list(dict.fromkeys(plan.steps[index].access))
        if len(access) > 1:
            builder.add_fan_in_edges([steps[seen] for seen in access], executor)
        else:
            builder.add_edge(steps[access[0]] if access else question, executor)
    return builder.build()
