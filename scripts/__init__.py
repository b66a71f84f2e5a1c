"""Scripts for contributors; `python -m scripts.NAME` runs one."""
