from .asked import Answered as Answered, Asked as Asked, checked_answer as checked_answer
from .earlier import KeyReused as KeyReused, Recorded as Recorded
from .running import (
    LivePieces as LivePieces,
    Running as Running,
    Written as Written,
    watched_calls as watched_calls,
)
from .turn import Piece as Piece, ProgressPiece as ProgressPiece, TextPiece as TextPiece, Turn as Turn
from .turns import RunTurn as RunTurn, Turns as Turns, check_tool_results as check_tool_results
