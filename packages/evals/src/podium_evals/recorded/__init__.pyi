from .recording_file import (
    read_pool as read_pool,
    read_recordings as read_recordings,
    write_recordings as write_recordings,
)
from .recordings import (
    NO_ANSWER as NO_ANSWER,
    DatedPrice as DatedPrice,
    PriceTable as PriceTable,
    Provenance as Provenance,
    Question as Question,
    Recording as Recording,
    Recordings as Recordings,
    Sample as Sample,
    content_key as content_key,
    normalised as normalised,
    with_options as with_options,
)
from .workers import (
    INSTRUCTIONS as INSTRUCTIONS,
    RecordedWorker as RecordedWorker,
    Reducer as Reducer,
    Vote as Vote,
    recorded_pool as recorded_pool,
    same_answer as same_answer,
    without_instruction as without_instruction,
)
