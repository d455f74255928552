"""The papers' own figures, measured again: one module a paper, one command for all."""
