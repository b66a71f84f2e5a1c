"""Lets `python -m podium` do what `podium` does."""

from podium.cli import main

if __name__ == "__main__":
    main()
