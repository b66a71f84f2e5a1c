"""`/a2a/MODEL`: the models as agents of the A2A protocol, with their cards."""
