"""`tocsin demo`: generate a city, its rules and its traffic, and match them on Spark."""
