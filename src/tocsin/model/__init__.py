"""Plain data: schema, conditions, keys, conjunctions, events and matches."""
