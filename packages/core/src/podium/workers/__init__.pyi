from .offline import (
    Calculator as Calculator,
    Documents as Documents,
)
from .openai.chat import (
    ChatWorker as ChatWorker,
)
from .openai.chat_response import (
    joined_finish as joined_finish,
    read_finish as read_finish,
    read_usage as read_usage,
)
from .openai.endpoint import (
    Endpoint as Endpoint,
)
from .openai.errors import ReportedFault as ReportedFault
from .openai.models import (
    KnownModel as KnownModel,
    look_up_model as look_up_model,
    with_known_facts as with_known_facts,
)
from .openai.providers import (
    PROVIDERS as PROVIDERS,
    Provider as Provider,
    Timeouts as Timeouts,
)
from .pool import (
    Pool as Pool,
)
from .rates import (
    KindEntry as KindEntry,
    MeasuredFile as MeasuredFile,
    RateEntry as RateEntry,
    by_similarity as by_similarity,
    identity_of as identity_of,
    kind_of as kind_of,
    measured_kinds as measured_kinds,
    put_on_cards as put_on_cards,
    rate_on as rate_on,
    read_measured as read_measured,
    write_measured as write_measured,
)
from .simple import (
    FunctionWorker as FunctionWorker,
    Gather as Gather,
    ScriptedWorker as ScriptedWorker,
)
from .worker import (
    FREE as FREE,
    Caller as Caller,
    CallMiddleware as CallMiddleware,
    Card as Card,
    Kind as Kind,
    MeasuredRate as MeasuredRate,
    Price as Price,
    PriceTier as PriceTier,
    Request as Request,
    StepInput as StepInput,
    VisibleStep as VisibleStep,
    Worker as Worker,
    complete as complete,
    step_input_of as step_input_of,
)
