from .bundles import (
    Bundle as Bundle,
    BundleScore as BundleScore,
    JoinParts as JoinParts,
    Part as Part,
    make_bundles as make_bundles,
)
from .public import (
    Level as Level,
    Origin as Origin,
    OriginFile as OriginFile,
    Progress as Progress,
    fetch_mmlu_pro as fetch_mmlu_pro,
    fetch_reasoning_gym as fetch_reasoning_gym,
    mmlu_pro_origin as mmlu_pro_origin,
    read_bfcl as read_bfcl,
    read_mmlu_pro as read_mmlu_pro,
    read_reasoning_gym as read_reasoning_gym,
    reasoning_gym_origin as reasoning_gym_origin,
)
from .recording_file import (
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
