from .chat import (
    ChatAnswer as ChatAnswer,
    ChatCall as ChatCall,
    read_sampling as read_sampling,
    read_tools as read_tools,
)
from .continuation import ContinuationStore as ContinuationStore, RecordedRun as RecordedRun
from .errors import GuardrailTripped as GuardrailTripped, worker_errors as worker_errors
from .openai import (
    BASE_URL as BASE_URL,
    ConductorTransport as ConductorTransport,
    HostCall as HostCall,
    run_errors as run_errors,
)
from .results import (
    Partial as Partial,
    read_completion as read_completion,
    result_metadata as result_metadata,
    sampling_arguments as sampling_arguments,
    text_of as text_of,
    tool_call as tool_call,
)
from .workers import (
    CardMaker as CardMaker,
    CardOptions as CardOptions,
    ConductorFace as ConductorFace,
    ToolWorker as ToolWorker,
)
