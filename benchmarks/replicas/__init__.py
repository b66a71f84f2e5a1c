"""What a run costs replicas of `podium serve` and their PostgreSQL, and how many runs they execute."""
