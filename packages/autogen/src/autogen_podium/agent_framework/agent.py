"""A conductor as an agent of Agent Framework: alone, with sessions, in workflows and orchestrations."""

from collections.abc import Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from agent_framework import Agent, FunctionInvocationContext, FunctionTool, ResponseStream

from autogen_podium.agent_framework.client import CALLER, ConductorChatClient, left
from autogen_podium.agent_framework.wrap import Participant, conductor_of
from podium.conductor import Conductor
from podium.errors import PodiumError
from podium.hosts import ConductorFace, Partial
from podium.workers import Card


@ConductorFace.register
class ConductorAgent(Agent[Any]):
    """Plans a task and has agents, chat clients and workers of Podium execute the steps.

    It is an `Agent` whose client is a `ConductorChatClient`, so it works wherever an `Agent` does, such as
    in `HandoffBuilder`, or as the orchestrator of a group chat. The worker of a step is shown the question,
    the steps on its access list and its subtask, and nothing else. Agents are run without a session, in
    parallel if their steps do not depend on each other. With a session, the conductor agent remembers the
    conversation.

    Args:
        conductor: a conductor, instead of its parts.
        planner: writes the plans: a chat client, or a planner or worker of Podium.
        workers: execute the steps.
        name: the agent's name.
        description: the description for other agents.
        show_steps: whether a stream has the plans and the outputs of steps, as reasoning.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`.
        options: further options of `podium.Conductor` (`limits`, `policy`, `journal`, …), `workflows`, and
            further options of `Agent`: `instructions`, `tools`, `default_options`, `middleware`, ….

    Raises:
        ConfigError: there is no planner, or a conductor and its parts; see `ConductorChatClient`.
    """

    def __init__(  # noqa: PLR0913 - the options of two classes
        self,
        conductor: Conductor | None = None,
        *,
        planner: Participant | object = None,
        workers: Sequence[Participant] = (),
        name: str = "conductor",
        description: str = "Plans a task and has a team execute it.",
        show_steps: bool = False,
        partial: Partial = "return",
        **options: Any,
    ) -> None:
        of_agent = {each: options.pop(each) for each in signature(Agent).parameters if each in options}
        card = Card(name=name, description=description)
        made = conductor_of(conductor, planner, workers, options, face=ConductorAgent, card=card)
        client = ConductorChatClient(made, show_steps=show_steps, partial=partial)
        client.author = name
        super().__init__(client, name=name, description=description, **of_agent)

    @property
    def conductor(self) -> Conductor:
        """The conductor that plans and runs each task."""
        return cast("ConductorChatClient", self.client).conductor

    if not TYPE_CHECKING:  # the overloads are the framework's

        def run(self, *args: Any, **options: Any) -> Any:
            """Run the agent, like `Agent.run`; leaving a stream cancels its run."""
            answer = super().run(*args, **options)
            return left(answer) if isinstance(answer, ResponseStream) else answer

    def as_tool(self, **options: Any) -> FunctionTool:
        """Return this agent as a tool, like `Agent.as_tool`.

        The framework tells a model only that a function failed. If the run failed after it had begun an
        action, the tool returns the error's text, which says so. A question that is asked again in the same
        session continues its run, if there is a journal.
        """
        tool = super().as_tool(**options)
        ask, own = cast("Any", tool.func), uuid4().hex

        async def asked(ctx: FunctionInvocationContext, **arguments: Any) -> str:
            place = own if ctx.session is None else ctx.session.session_id
            token = CALLER.set(f"tool {place}")
            try:
                return str(await ask(ctx, **arguments))
            except PodiumError as error:
                if not error.actions:
                    raise
                return f"Error: {error}"
            finally:
                CALLER.reset(token)

        tool.func = asked
        return tool
