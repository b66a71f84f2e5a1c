from .remote_server import (
    McpServer as McpServer,
    Offer as Offer,
)
from .serving.conductor_server import (
    make_server as make_server,
)
from .serving.tool_server import (
    ToolCall as ToolCall,
    ToolServer as ToolServer,
)
from .serving.transports import (
    serve_http as serve_http,
    serve_stdio as serve_stdio,
)
from .transports import (
    Stdio as Stdio,
    StreamableHttp as StreamableHttp,
)
