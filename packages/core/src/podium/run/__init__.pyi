from .approval import PAUSED as PAUSED, REFUSED as REFUSED
from .delivery import Listener as Listener, StreamedAnswer as StreamedAnswer
from .request import RunOptions as RunOptions
