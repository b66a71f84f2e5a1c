from .server import make_server as make_server
from .workers import McpServer as McpServer, Stdio as Stdio, StreamableHttp as StreamableHttp
