from .command import CommandWorker as CommandWorker, Preset as Preset
from .offline import Calculator as Calculator, Documents as Documents
from .openai.chat import ChatWorker as ChatWorker
from .openai.endpoint import Endpoint as Endpoint
from .openai.providers import PROVIDERS as PROVIDERS, Provider as Provider, Timeouts as Timeouts
from .person import PersonWorker as PersonWorker
from .pool import Pool as Pool
from .simple import Gather as Gather, Join as Join, ScriptedWorker as ScriptedWorker, Vote as Vote
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
