from .boundary import (
    Boundary as Boundary,
)
from .redact import (
    register as register,
    scrub as scrub,
    scrub_data as scrub_data,
    scrub_error as scrub_error,
    scrubbing as scrubbing,
)
