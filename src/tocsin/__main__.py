"""`python -m tocsin` is the command `tocsin`."""

from tocsin.cli.main import tocsin

tocsin(prog_name="tocsin")
