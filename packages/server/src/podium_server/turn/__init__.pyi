from .earlier import KeyReused as KeyReused, Recorded as Recorded
from .running import (
    LivePieces as LivePieces,
    Running as Running,
    Written as Written,
    watched_calls as watched_calls,
)
from .turn import (
    Answered as Answered,
    Asked as Asked,
    Piece as Piece,
    ProgressPiece as ProgressPiece,
    TextPiece as TextPiece,
    Turn as Turn,
    checked_answer as checked_answer,
)
from .turns import RunTurn as RunTurn, Turns as Turns, check_tool_results as check_tool_results
