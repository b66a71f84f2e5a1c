"""The arms. Each arm is a coroutine function that does the job once, in its own way."""
