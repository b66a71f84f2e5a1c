from .approval import PAUSED as PAUSED, REFUSED as REFUSED
from .cost_room import tight_cost as tight_cost
from .listeners import Listener as Listener
from .request import RunOptions as RunOptions
from .streamed_answer import StreamedAnswer as StreamedAnswer
