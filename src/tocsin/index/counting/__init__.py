"""Counting: an interval index per attribute, and a counter per conjunction."""
