from .remote_server import (
    McpServer as McpServer,
    Offer as Offer,
)
from .transports import (
    Stdio as Stdio,
    StreamableHttp as StreamableHttp,
)
