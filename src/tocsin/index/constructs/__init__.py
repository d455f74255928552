"""Virtual constructs: prepared intervals and rectangles that rules are cut into."""
