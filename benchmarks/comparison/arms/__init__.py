"""The arms, one module for each host."""
