"""The matching algorithms. Each proposes; `accept` and `finish` decide, for all alike."""
