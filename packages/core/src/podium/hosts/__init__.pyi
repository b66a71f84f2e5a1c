from .cards import (
    CardMaker as CardMaker,
    CardOptions as CardOptions,
    ConductorFace as ConductorFace,
    base_url_of as base_url_of,
    said_acts as said_acts,
)
from .chat import (
    ChatAnswer as ChatAnswer,
    ChatCall as ChatCall,
    whole_answers as whole_answers,
)
from .chat_options import (
    SAMPLING_OPTIONS as SAMPLING_OPTIONS,
    read_sampling as read_sampling,
    read_tools as read_tools,
)
from .errors import (
    GuardrailTripped as GuardrailTripped,
    HostErrorReader as HostErrorReader,
    ReportedFault as ReportedFault,
    cut_answer_usage as cut_answer_usage,
    worker_error as worker_error,
    worker_errors as worker_errors,
)
from .made_conductor import (
    CONDUCTOR_OPTIONS as CONDUCTOR_OPTIONS,
    make_conductor as make_conductor,
)
from .messages import (
    joined_finish as joined_finish,
    prompt_text as prompt_text,
    read_completion as read_completion,
    sampling_arguments as sampling_arguments,
    spent_completion as spent_completion,
    text_of as text_of,
    tool_arguments as tool_arguments,
    tool_call as tool_call,
)
from .recorded import (
    RecordedRun as RecordedRun,
    session_run_id as session_run_id,
    undecided_run as undecided_run,
)
from .results import (
    Partial as Partial,
    answer_sources as answer_sources,
    answered as answered,
    check_partial as check_partial,
    lack_after as lack_after,
    lack_of as lack_of,
    plan_lines as plan_lines,
    plan_metadata as plan_metadata,
    result_metadata as result_metadata,
    run_failed as run_failed,
    steps_behind as steps_behind,
    text_answer as text_answer,
)
from .text_answers import (
    encoded_size as encoded_size,
    gaps_told as gaps_told,
    text_completion as text_completion,
)
from .tool_continuation import (
    ContinuationStore as ContinuationStore,
    continuation_names as continuation_names,
    write_continuation as write_continuation,
)
from .tools import (
    ToolWorker as ToolWorker,
    hints_act as hints_act,
)
