"""Safe regions: where an object may move without any event (thesis, 2.4.1 and 2.4.2)."""
