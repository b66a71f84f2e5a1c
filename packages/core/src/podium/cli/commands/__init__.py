"""One module per command: what can be typed, its help, and what it does. Imported when the command runs."""
