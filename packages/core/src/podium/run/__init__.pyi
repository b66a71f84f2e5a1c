from .approval import PAUSED as PAUSED, REFUSED as REFUSED
from .delivery import Listener as Listener, StreamedAnswer as StreamedAnswer
from .plan_request import tight_cost as tight_cost
from .request import RunOptions as RunOptions
