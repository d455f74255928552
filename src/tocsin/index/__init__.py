"""The matching algorithms. Each proposes candidates; `accept` and `finish` decide, for all alike."""
