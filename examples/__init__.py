"""Programs to read, run and change."""
