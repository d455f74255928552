"""Points and shapes in the plane and on the globe; nothing here knows of rules."""
