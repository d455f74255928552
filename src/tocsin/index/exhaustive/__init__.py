"""Exhaustive search, in blocks of contiguous bounds."""
