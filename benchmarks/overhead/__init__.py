"""The cost of running a plan, beyond the work itself, beside Podium's peers.

    python -m benchmarks.overhead [--quick] [--arms floor,podium] [--json FILE]

Every arm does the same job: the same steps, subtasks, question and answers, prompts of the
same size, and one loopback server in its own process that answers chat completions after a
fixed delay (`worker_server`). With no-op workers the prompts are built in the same way, and
a coroutine in the arm's process returns the answer. The arms:

- `floor`: asyncio and httpx2 over the aiohttp transport, written by hand for this
  one shape: one client, the request serialised once, no cookies, no redirects. It has no
  plan, no limits, no events and no outcomes; a failed step ends the program.
- `podium`: `Conductor.run` of a fixed plan, which is checked, executed and accounted for;
  three `ChatWorker`s on one endpoint, or three `FunctionWorker`s. No planner model is
  called, and nobody reads the events.
- `langgraph`: the graph wired by hand and compiled once, a plain `httpx2.AsyncClient` in its
  nodes, one client for all, without the default limit of 100 connections, which would cost
  it far more. No checkpointer, no tracing.
- `langgraph-built`: the same, but the graph is built and compiled at each call.
- `langgraph-openai`, `langgraph-built-openai`: the same two with `ChatOpenAI` in the nodes,
  with its defaults, one for each model.
- `langgraph-nested`: `langgraph-built` inside the only node of another graph.
- `podium-runnable`: the conductor of `podium` as a `ConductorRunnable`, without callbacks.
- `podium-node`: `conductor_node(..., executor="langgraph")` in a user's graph, planner
  included, to compare with `langgraph-nested`.

The last three run with no-op workers only: the difference to another arm is the same for
all workers.

Each arm of each cell (shape, workers, runs in flight) runs in its own process, so that its
imports and its memory are its own. The arms of a cell take turns, block by block, so that a
slow moment of the machine affects them all. A ratio is the median over the rounds of the
ratio within a round. CPU time is user and system time of the client's process.
"""
