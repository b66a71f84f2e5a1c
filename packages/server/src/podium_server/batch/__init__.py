"""`podium batch`: many runs from a file, in any order, within one budget."""
