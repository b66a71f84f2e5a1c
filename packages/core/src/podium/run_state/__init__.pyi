from .paid import unbilled as unbilled
from .state import RunState as RunState, fold as fold
