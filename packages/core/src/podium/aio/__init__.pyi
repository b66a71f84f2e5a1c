from .sync import iterate as iterate, run_sync as run_sync
