"""The tiny model on recorded answers: what it reads, its warm start, and its comparison with other arms."""
