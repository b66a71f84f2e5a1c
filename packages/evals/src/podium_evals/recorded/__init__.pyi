from .packed import (
    Level as Level,
    read_mmlu_pro as read_mmlu_pro,
    read_reasoning_gym as read_reasoning_gym,
)
from .question import (
    Question as Question,
    content_key as content_key,
    normalised as normalised,
)
from .recordings import (
    Provenance as Provenance,
    Recording as Recording,
    Recordings as Recordings,
    Sample as Sample,
)
