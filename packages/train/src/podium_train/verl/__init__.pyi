from .job import (
    overrides as overrides,
    write_job as write_job,
)
