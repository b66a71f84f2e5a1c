from .catalogue import (
    Catalogue as Catalogue,
    make_catalogue as make_catalogue,
    model_sections as model_sections,
)
from .served_model import (
    ModelActs as ModelActs,
    ModelUnknown as ModelUnknown,
    ServedModel as ServedModel,
    demo_config as demo_config,
)
