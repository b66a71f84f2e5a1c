"""The viewer: a page for browsers that shows runs as they happen."""
