"""What running a plan costs beside the work itself, measured against Podium's peers.

    python -m podium_evals.overhead [--quick] [--arms floor,podium] [--json FILE]

Every arm does the same job: the same steps, subtasks, question and answers, prompts of the
same size, and one loopback server in a process of its own that answers chat completions
after a set delay (`server`). Where the workers are no-ops, the prompts are built all the
same and a coroutine in the process returns the answer. What an arm does, and does not do:

- `floor`: asyncio and httpx over the aiohttp transport, written by hand for this one shape,
  one client, the request serialised once, no cookies, no redirects. It has no plan, no
  limits, no events, no outcomes; a failed step ends the program.
- `podium`: `Conductor.run` of a given plan, which is checked, executed and accounted for;
  three `ChatWorker`s on one endpoint, or three `FunctionWorker`s. No planner is asked, and
  nobody reads along.
- `langgraph`: the graph wired by hand and compiled once, plain `httpx.AsyncClient` in its
  nodes, one client for all, without the default bound of 100 connections, which would
  cost it far more. No checkpointer, no tracing.
- `langgraph-built`: the same, the graph built and compiled at each call.
- `langgraph-openai`, `langgraph-built-openai`: the same two with `ChatOpenAI` in the nodes,
  as it comes, one for each model.
- `langgraph-nested`: `langgraph-built` inside the only node of another graph.
- `podium-runnable`: the conductor of `podium` as a `ConductorRunnable`, without callbacks.
- `podium-steps`: the same conductor, whose steps a graph carries out that LangGraph runs and
  that is made of the plan: the dynamic subgraph, to be held against `langgraph-built`.
- `podium-node`: all of `conductor_node(..., executor="langgraph")` in a user's graph, planner
  included, to be held against `langgraph-nested`.

The last four say what they add to another arm, and run with no-op workers only.

Each arm of each cell (shape, workers, in flight) runs in a process of its own, so that its
imports and its memory are its own; the arms of a cell take turns, block by block, so that
a slow moment of the machine befalls them all. A ratio is the median over the rounds of the
ratio within a round. CPU time is that of the client's process, user and system.

What the imports of `langchain_podium` add is measured in `imports`.
"""
