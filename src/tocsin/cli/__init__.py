"""The command line. Commands parse, call and print; what they do is in the layers below."""
