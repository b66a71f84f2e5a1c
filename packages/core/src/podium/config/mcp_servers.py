"""Builds the MCP servers of a config."""

from collections.abc import Mapping

from podium.config.sections import McpSection
from podium.config.source import Source
from podium.config.variables import read_variable
from podium.mcp import McpServer, Stdio, StreamableHttp


def make_mcp_server(name: str, section: McpSection, source: Source) -> McpServer:
    """Return the server of `[workers.NAME]` of type `mcp`. Nothing is started.

    Raises:
        ConfigError: a named environment variable is not set, or the command or URL is wrong.
    """

    def values(key: str, variables: Mapping[str, str]) -> dict[str, str]:
        use, remedy = (
            f"[workers.{name}] gives it to its MCP server",
            "with the value, or take its workers out",
        )
        return {
            given: read_variable(source, ("workers", name, key), variable, use, remedy)
            for given, variable in variables.items()
        }

    variables = values("env_from", {variable: variable for variable in section.env_from})
    headers = values("headers_env", section.headers_env)
    with source.at("workers", name):
        transport: Stdio | StreamableHttp
        if section.url is None:
            folder = source.path.parent if section.folder is None else source.near(section.folder)
            env = {**section.env, **variables}
            transport = Stdio(section.command or "", section.args, env=env, folder=folder)
        else:
            transport = StreamableHttp(section.url, {**section.headers, **headers})
        return McpServer(name, transport, seconds=section.seconds, labels=section.labels, price=section.price)
