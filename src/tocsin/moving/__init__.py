"""Moving objects: who is inside what, and who is where now."""
