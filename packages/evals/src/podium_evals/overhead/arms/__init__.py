"""The arms: each does the job its own way behind one face, a coroutine function that runs it once."""
