from .sdk import (
    Stdio as Stdio,
    StreamableHttp as StreamableHttp,
)
from .sdk_server import (
    ToolCall as ToolCall,
    ToolServer as ToolServer,
)
from .server import (
    make_server as make_server,
    serve_http as serve_http,
    serve_stdio as serve_stdio,
)
from .workers import (
    McpServer as McpServer,
    Offer as Offer,
)
