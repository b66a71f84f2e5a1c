from .server import (
    make_server as make_server,
    new_server as new_server,
    serve_stdio as serve_stdio,
    tool_answer as tool_answer,
    tool_failure as tool_failure,
)
from .workers import (
    McpServer as McpServer,
    Offer as Offer,
    Stdio as Stdio,
    StreamableHttp as StreamableHttp,
)
