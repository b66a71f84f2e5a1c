from .config import Config as Config
from .load import find_config as find_config, load_config as load_config, load_plan as load_plan
from .section import Section as Section
from .sections import AddedPlanner as AddedPlanner
from .variant import Variant as Variant
