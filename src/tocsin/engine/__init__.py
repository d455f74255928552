"""Rules in one process: base, delta, removals, merge; matching, explaining, planning."""
