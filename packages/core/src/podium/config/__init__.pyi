from .config import Config as Config, Variant as Variant
from .load import find_config as find_config, load_config as load_config
from .section import Section as Section
from .sections import AddedPlanner as AddedPlanner
