"""Workers that are AutoGen objects: agents, teams, tools, model clients."""
