from .function import (
    FunctionWorker as FunctionWorker,
)
from .offline.calculator import (
    Calculator as Calculator,
)
from .offline.document_search import (
    Documents as Documents,
)
from .offline.gather import (
    Gather as Gather,
)
from .openai.chat import (
    ChatWorker as ChatWorker,
)
from .openai.endpoint import (
    Endpoint as Endpoint,
)
from .openai.timeouts import (
    Timeouts as Timeouts,
)
from .pool import (
    Pool as Pool,
)
from .scripted import (
    ScriptedWorker as ScriptedWorker,
)
from .worker import (
    FREE as FREE,
)
from .worker import (
    Caller as Caller,
)
from .worker import (
    CallMiddleware as CallMiddleware,
)
from .worker import (
    Card as Card,
)
from .worker import (
    Price as Price,
)
from .worker import (
    Request as Request,
)
from .worker import (
    StepInput as StepInput,
)
from .worker import (
    VisibleStep as VisibleStep,
)
from .worker import (
    Worker as Worker,
)
from .worker import (
    complete as complete,
)
from .worker import (
    step_input_of as step_input_of,
)
