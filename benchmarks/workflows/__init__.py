"""Measures a workflow of 200 files in Podium, pydantic-ai's `DynamicWorkflow`, and LangGraph with `Send`.

    python -m benchmarks.workflows [--files 200] [--slots 16] [--seed 1] [--quick] [--json FILE]

The job: a list of files; each file is read, then reviewed; every second review has a finding, which three
sceptics doubt; at the end a report is written until it is complete, in three turns. All arms call the same
scripted models on loopback, whose answers and delays depend on the call and the seed only: 0.2 to 3 s, 0.6 s
on average, and 5 % of the calls are refused with status 429 and `Retry-After: 1`. An arm makes 16 calls at a
time at most.

- Podium runs a plan; two answers of a finding's sceptics are enough, and the third is cancelled. Raised
  limits: `Limits(calls=12 * files + 100)`, and `items=files` above 256.
- pydantic-ai runs the script of a scripted manager, with `max_agent_calls` as high, and one limiter for all
  models. It needs an environment of its own: `make benchmark-workflows` installs it. Without it, the arm is
  left out.
- LangGraph sends each file to a graph of its own, which sends its findings to the sceptics, so that no file
  waits for others. Its models are `ChatOpenAI`.

The least time is that of an ideal schedule, computed from the delays that were served: each call starts as
soon as its inputs are there and a slot is free, and a refused call after a second. Tokens are counted by the
server, four bytes each.

- A kill: the process gets SIGKILL when half of the answers are sent, and another process resumes the run
  (Podium: `SqlJournal`, LangGraph: `AsyncSqliteSaver`; pydantic-ai starts again).
- A limit: half of what the job has cost before, in a new process. Podium has `Limits.cost` and
  `fan_out="fit"`, pydantic-ai `total_tokens_limit` of all agents, LangGraph none.
- Memory and CPU without HTTP: workers in the process of Podium, which answer at once; 300 and 3,000 files,
  which make about 1,000 and 10,000 items. `Limits.output_chars` is raised for the list of all votes.
"""
