"""Workers: the seam, the pool, and the workers that come with Podium."""
