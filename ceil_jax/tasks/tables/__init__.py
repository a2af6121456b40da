"""Reading a file or a frame as rows, in this order; `tasks.files.read_table` is the way in.

- `magic`: what a file is by its first bytes
- `unpacking`: its content, unpacked up to a bound
- `decoding`: bytes to text
- `json_rows`: JSON in all its shapes to rows; `separated`: the separator, the header and the quotes
  of a text table
- `columnar`: parquet and Arrow to rows, with the names of labels
- `frames`: tables in memory: pandas, polars, Arrow, `datasets`
- `table_rows`: `TableRows`, rows with the place where each stood

What a row's cells mean is in `tasks.cells`.
"""
