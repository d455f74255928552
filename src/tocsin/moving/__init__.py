"""Moving objects: who is inside which fence, and what changed."""
