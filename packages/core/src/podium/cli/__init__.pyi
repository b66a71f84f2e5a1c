from .arguments import (
    AsJson as AsJson,
    ConfigPath as ConfigPath,
    Run as Run,
    above_zero as above_zero,
    age as age,
    check_journal as check_journal,
    find_run as find_run,
    local_time as local_time,
    look as look,
    span as span,
)
from .entry import (
    main as main,
)
from .root import (
    app as app,
    command_group as command_group,
)
from .screen import (
    Screen as Screen,
    counted as counted,
    duration as duration,
    money as money,
    reporting as reporting,
)
