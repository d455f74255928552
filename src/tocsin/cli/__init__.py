"""The command line. Commands parse arguments, call the layers below and print."""
