"""Boxes in the cells of a plane: the grid and the n-tree."""
