from .approval import Decision as Decision, decide as decide
from .request import ResumeOptions as ResumeOptions, RunOptions as RunOptions
from .runner import Listener as Listener, StreamedAnswer as StreamedAnswer
