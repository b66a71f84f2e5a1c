"""Names of span attributes in OpenTelemetry's GenAI conventions, OpenLLMetry and OpenInference.

Each tuple has the current name first, then older names, then the names of other conventions.
"""

OPERATION = ("gen_ai.operation.name", "llm.request.type")
SPAN_KIND = ("openinference.span.kind", "traceloop.span.kind")
PROVIDER = ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system")
BASE_URL = ("gen_ai.openai.api_base", "server.address", "url.full")
MODEL = (
    "gen_ai.response.model",
    "gen_ai.request.model",
    "llm.response.model_name",
    "llm.model_name",
    "llm.request.model_name",
    "embedding.model_name",
    "llm.response.model",
    "llm.request.model",
)
TIER = ("openai.response.service_tier", "gen_ai.openai.response.service_tier")
INPUT = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "llm.usage.prompt_tokens",
)
OUTPUT = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "llm.usage.completion_tokens",
)
CACHED = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read",
)
CACHE_WRITES = (
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "llm.token_count.prompt_details.cache_write",
)
REASONING = (
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
    "llm.usage.reasoning_tokens",
)
COST = ("gen_ai.usage.cost", "podium.cost", "llm.cost.total", "gen_ai.usage.total_cost")
FINISH = ("gen_ai.response.finish_reasons", "llm.finish_reason", "gen_ai.completion.0.finish_reason")
STEP = (
    "gen_ai.agent.name",
    "agent.name",
    "graph.node.name",
    "traceloop.entity.name",
    "gen_ai.tool.name",
    "tool.name",
)
PROMPT = ("gen_ai.input.messages", "gen_ai.prompt")
PROMPT_PREFIXES = ("llm.input_messages.", "gen_ai.prompt.")
ANSWER = ("gen_ai.output.messages", "gen_ai.completion")
ANSWER_PREFIXES = ("llm.output_messages.", "gen_ai.completion.")
QUESTION = ("input.value", "traceloop.entity.input")
CALLS = {
    "chat",
    "completion",
    "text_completion",
    "generate_content",
    "embeddings",
    "embedding",
    "rerank",
    "plan",
}
"""Operations that are model calls; a planner call of Podium is one of them."""
WRITING = ("chat", "text_completion", "generate_content")
"""Operations that answer with a text."""
TOOLS = {"execute_tool", "tool"}
AGENTS = {"invoke_agent", "create_agent", "agent", "invoke_workflow"}
CALL_KINDS = {"llm", "embedding", "reranker"}
