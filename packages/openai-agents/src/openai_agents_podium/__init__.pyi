from .model import ConductorModel as ConductorModel
from .provider import ConductorProvider as ConductorProvider
from .result_metadata import podium_metadata as podium_metadata
from .tool import conductor_tool as conductor_tool

__version__: str
