from .answered import Answered as Answered, checked_answer as checked_answer
from .asked import Asked as Asked
from .idempotency import KeyReused as KeyReused, Recorded as Recorded
from .live_pieces import LivePieces as LivePieces, Written as Written
from .pieces import Piece as Piece, ProgressPiece as ProgressPiece, TextPiece as TextPiece
from .run_turn import RunTurn as RunTurn
from .running import Running as Running
from .tool_results import check_tool_results as check_tool_results
from .turn import Turn as Turn
from .turns import Turns as Turns
from .usage import answer_usage as answer_usage
from .watched_calls import watched_calls as watched_calls
