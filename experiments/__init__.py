"""The papers' figures, measured again: one module per paper, one command for all."""
