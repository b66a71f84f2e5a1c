"""LlamaIndex: a conductor's query engine, SubQuestionQueryEngine, AgentWorkflow, a Workflow wired by hand."""

import json
from typing import Any

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.query_engine import CustomQueryEngine, SubQuestionQueryEngine
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.tools import QueryEngineTool
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step
from llama_index.llms.openai_like import OpenAILike  # type: ignore[import-untyped]

from benchmarks.comparison.arms.arm import Arm, hand_over, plan
from benchmarks.comparison.job import QUESTION, Job, Step
from benchmarks.comparison.model_server import MANAGER, Asked, Said
from llama_index_podium import ConductorQueryEngine, as_worker


def _llm(name: str, url: str) -> OpenAILike:
    return OpenAILike(
        model=name,
        api_base=url,
        api_key="none",
        is_chat_model=True,
        is_function_calling_model=True,
        context_window=128_000,
        max_retries=0,
    )


async def _podium(job: Job, url: str) -> str:
    workers = [as_worker(_llm(s.name, url), name=s.name, description=s.description) for s in job.steps]
    return str(await ConductorQueryEngine(workers=workers, planner=_llm(MANAGER, url)).aquery(QUESTION))


class _Analyst(CustomQueryEngine):
    unit: Any
    llm: Any

    def custom_query(self, query_str: str) -> str:
        return str(self.llm.chat(self._messages(query_str)).message.content)

    async def acustom_query(self, query_str: str) -> str:
        return str((await self.llm.achat(self._messages(query_str))).message.content)

    def _messages(self, question: str) -> list[ChatMessage]:
        return [ChatMessage(role="system", content=self.unit.description), ChatMessage(content=question)]


async def _sub_questions(job: Job, url: str) -> str:
    tools = [
        QueryEngineTool.from_defaults(_Analyst(unit=u, llm=_llm(u.name, url)), u.name, u.description)
        for u in job.units
    ]
    asking = LLMQuestionGenerator.from_defaults(llm=_llm(MANAGER, url))
    synthesizer = get_response_synthesizer(llm=_llm(job.writer.name, url), use_async=True)
    engine = SubQuestionQueryEngine(asking, synthesizer, tools, verbose=False, use_async=True)
    return str(await engine.aquery(QUESTION))


def _ask(job: Job, asked: Asked) -> Said | None:
    if asked.model != MANAGER:
        return None
    items = [{"sub_question": unit.subtask, "tool_name": unit.name} for unit in job.units]
    return Said("```json\n" + json.dumps({"items": items}, indent=4) + "\n```")


def _workflow(*, mesh: bool) -> Arm:
    async def run(job: Job, url: str) -> str:
        names = [each.name for each in job.steps]
        agents: Any = [
            FunctionAgent(
                name=each.name,
                description=each.description,
                system_prompt=f"{each.system} When your part is done, hand over.",
                llm=_llm(each.name, url),
                can_handoff_to=[n for n in names if n != each.name] if mesh else names[at + 1 : at + 2],
            )
            for at, each in enumerate(job.steps)
        ]
        return str(await AgentWorkflow(agents=agents, root_agent=names[0]).run(user_msg=QUESTION))

    return Arm(f"AgentWorkflow, {'every agent to every other' if mesh else 'one successor'}", run, hand_over)


class _Unit(Event):
    unit: Any


class _Found(Event):
    finding: str


class _Wired(Workflow):
    def __init__(self, job: Job, url: str) -> None:
        super().__init__(timeout=60)
        self._job, self._url = job, url

    @step
    async def start(self, ctx: Context, ev: StartEvent) -> _Unit | None:  # noqa: ARG002 - LlamaIndex passes it
        for unit in self._job.units:
            ctx.send_event(_Unit(unit=unit))
        return None

    @step(num_workers=16)
    async def examine(self, ev: _Unit) -> _Found:
        return _Found(finding=await self._say(ev.unit, QUESTION))

    @step
    async def write(self, ctx: Context, ev: _Found) -> StopEvent | None:
        found = ctx.collect_events(ev, [_Found] * len(self._job.units))
        if found is None:
            return None
        shown = f"{QUESTION}\n\nFindings:\n\n" + "\n\n".join(each.finding for each in found)
        return StopEvent(result=await self._say(self._job.writer, shown))

    async def _say(self, who: Step, text: str) -> str:
        asked = [ChatMessage(role="system", content=who.system), ChatMessage(content=text)]
        return str((await _llm(who.name, self._url).achat(asked)).message.content)


async def _hand_wired(job: Job, url: str) -> str:
    return str(await _Wired(job, url).run())


ARMS = (
    Arm("Podium, ConductorQueryEngine", _podium, plan),
    Arm("Workflow, wired by hand", _hand_wired),
    Arm("SubQuestionQueryEngine", _sub_questions, _ask),
    _workflow(mesh=True),
    _workflow(mesh=False),
)
