from .approval import Decision as Decision
from .nested import StreamedAnswer as StreamedAnswer
from .request import ResumeOptions as ResumeOptions, RunOptions as RunOptions
from .runner import Listener as Listener
