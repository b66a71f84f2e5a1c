from .config import Config as Config, Variant as Variant
from .load import find_config as find_config, load_config as load_config, load_plan as load_plan
from .sections import AddedPlanner as AddedPlanner, Section as Section
