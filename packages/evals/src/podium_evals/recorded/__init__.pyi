from .bundles import (
    Bundle as Bundle,
    BundleScore as BundleScore,
    JoinParts as JoinParts,
    Part as Part,
)
from .bundling import (
    make_bundles as make_bundles,
)
from .downloader import (
    Progress as Progress,
    default_folder as default_folder,
    download as download,
)
from .fetch import (
    fetch_mmlu_pro as fetch_mmlu_pro,
    fetch_reasoning_gym as fetch_reasoning_gym,
)
from .origins import (
    Origin as Origin,
    OriginFile as OriginFile,
    mmlu_pro_origin as mmlu_pro_origin,
    read_manifest as read_manifest,
    reasoning_gym_origin as reasoning_gym_origin,
)
from .packed import (
    Level as Level,
    read_bfcl as read_bfcl,
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
    with_options as with_options,
)
from .recorded_worker import (
    INSTRUCTIONS as INSTRUCTIONS,
    RecordedWorker as RecordedWorker,
    recorded_pool as recorded_pool,
    without_instruction as without_instruction,
)
from .recording_file import (
    read_recordings as read_recordings,
    write_recordings as write_recordings,
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
