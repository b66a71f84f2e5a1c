from .packed import (
    Level as Level,
    read_mmlu_pro as read_mmlu_pro,
    read_reasoning_gym as read_reasoning_gym,
)
from .prices import (
    DatedPrice as DatedPrice,
    PriceTable as PriceTable,
)
from .question import (
    Question as Question,
    content_key as content_key,
    normalised as normalised,
)
from .recorded_worker import (
    INSTRUCTIONS as INSTRUCTIONS,
    RecordedWorker as RecordedWorker,
    recorded_pool as recorded_pool,
)
from .recordings import (
    NO_ANSWER as NO_ANSWER,
    Provenance as Provenance,
    Recording as Recording,
    Recordings as Recordings,
    Sample as Sample,
)
from .reducers import (
    FirstAgreeing as FirstAgreeing,
    Longest as Longest,
    Reducer as Reducer,
    UpperBound as UpperBound,
    Vote as Vote,
    same_answer as same_answer,
)
