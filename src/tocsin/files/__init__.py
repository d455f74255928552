"""Readers and writers of CSV, JSON lines and Parquet, on pyarrow.

`events` opens files of events, `rules` reads files of rules and schemas, `writer` writes rows, and
`paths` finds files and tells their format. Nothing here needs Spark or a command line.
"""
