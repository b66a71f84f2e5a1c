"""Parts of recipes for tests."""

WORLD = 'type = "python"\nfactory = "tiny_conductor.world:Workshop"'
RECORDED = 'type = "recorded"\nrecording = "recording.jsonl"\nanswers = { sizes = [2] }'
RECIPE = f'\n[environment]\n{WORLD}\n[model]\nbase = "base"\n[grpo]\n'
PLANNER = """
endpoints.own.base_url = "{url}"
workers.any = {{ endpoint = "own", model = "any" }}
planner = {{ endpoint = "own", model = "mine", spelling = "lists" }}
"""
