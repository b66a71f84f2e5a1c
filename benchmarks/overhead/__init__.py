"""Measures the overhead of running a plan, in Podium and in other frameworks.

    python -m benchmarks.overhead [--quick] [--arms floor,podium] [--json FILE]

All arms do the same job, with the same steps, subtasks, question and answers, prompts of the same size, and
one loopback server in its own process that answers chat completions after a fixed delay (`worker_server`).
With no-op workers, the prompts are built in the same way, and a coroutine in the arm's process returns the
answer. The arms:

- `floor`: asyncio and aiohttp, written by hand for one shape: one session, the request
  serialised once, no cookies, no redirects. It has no plan, limits,
  events or outcomes; a failed step ends the program.
- `podium`: `Conductor.run` of a fixed plan, with three `ChatWorker`s on one endpoint, or
  three `FunctionWorker`s. No planner model is called, and the events are not read.
- `langgraph`: the graph wired by hand and compiled once, with one plain `httpx2.AsyncClient`
  for all nodes, without the default limit of 100 connections, which would make it much
  slower. No checkpointer, no tracing.
- `langgraph-built`: the same, but the graph is built and compiled at each call.
- `langgraph-openai`, `langgraph-built-openai`: the same two with `ChatOpenAI` in the nodes,
  with its defaults, one for each model.
- `langgraph-nested`: `langgraph-built` inside the single node of another graph.
- `podium-runnable`: the conductor of `podium` as a `ConductorRunnable`, without callbacks.
- `podium-node`: `conductor_node(..., executor="langgraph")` in a user's graph, including the
  planner, to compare with `langgraph-nested`.

The last three run with no-op workers only, because the difference to another arm is the same for all workers.

Each arm of each cell (shape, workers, runs in flight) runs in its own process, with its own imports and
memory. The arms of a cell alternate, block by block, so that other load affects them all. A ratio is the
median of the ratios of all rounds. CPU time is user and system time of the client's process.
"""
