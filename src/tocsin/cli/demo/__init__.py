"""`tocsin demo`: a seeded city, its rules and its traffic, in a minute on Spark."""
