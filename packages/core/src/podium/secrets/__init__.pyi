from .boundary import (
    Boundary as Boundary,
)
from .redact import (
    register as register,
)
from .redact import (
    scrub as scrub,
)
from .redact import (
    scrub_data as scrub_data,
)
from .redact import (
    scrub_error as scrub_error,
)
from .redact import (
    scrubbing as scrubbing,
)
