"""`python -m tocsin` is the command `tocsin`."""

from tocsin.cli.main import tocsin

if __name__ == "__main__":
    tocsin(prog_name="tocsin")
