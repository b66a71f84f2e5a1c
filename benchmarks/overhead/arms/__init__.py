"""The arms: each does the job in its own way, as a coroutine function that runs it once."""
