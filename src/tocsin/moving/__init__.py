"""Moving objects: who is inside what, what changed, and who is where now."""
