from .begin import (
    begin as begin,
    begin_after_sft as begin_after_sft,
)
from .changes import (
    check_prompt as check_prompt,
    check_recipe as check_recipe,
)
from .models import (
    mark_model as mark_model,
    share_files as share_files,
)
from .record import (
    RECORD as RECORD,
    PoolFacts as PoolFacts,
    TrainingRecord as TrainingRecord,
    read_record as read_record,
    record_of as record_of,
    weights_of as weights_of,
    write_record as write_record,
)
