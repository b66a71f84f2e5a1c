from .arguments import (
    AsJson as AsJson,
    ConfigPath as ConfigPath,
    above_zero as above_zero,
    span as span,
)
from .entry import (
    main as main,
)
from .numbers import (
    counted as counted,
    duration as duration,
    money as money,
)
from .root import (
    app as app,
)
from .run_lookup import (
    local_time as local_time,
)
from .screen import (
    EXIT_CODES as EXIT_CODES,
    Screen as Screen,
    reporting as reporting,
)
