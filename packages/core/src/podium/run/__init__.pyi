from .nested import StreamedAnswer as StreamedAnswer
from .request import RunOptions as RunOptions
from .runner import Listener as Listener
