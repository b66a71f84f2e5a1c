"""A tiny conductor that is trained from nothing on one core, in a world of its own."""
