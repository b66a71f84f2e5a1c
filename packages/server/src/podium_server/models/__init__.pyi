from .catalogue import (
    Catalogue as Catalogue,
    make_catalogue as make_catalogue,
    model_sections as model_sections,
)
from .demo import demo_config as demo_config
from .served_model import ModelActs as ModelActs, ModelUnknown as ModelUnknown, ServedModel as ServedModel
