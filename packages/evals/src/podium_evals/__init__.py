"""What Podium costs and what it is worth, measured beside its peers."""
