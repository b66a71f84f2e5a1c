"""The arms: each does the job once with the models at a URL."""
