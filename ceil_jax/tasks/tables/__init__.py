"""The steps of reading a file or a frame as rows, in order; `tasks.files.read_table` is the entry
point.

- `magic`: the kind of a file, by its first bytes
- `unpacking`: the content of a file, unpacked up to a size limit
- `decoding`: bytes to text
- `json_rows`: JSON of any layout to rows; `separated`: a text table to rows, by its separator,
  header and quotes; `ruled`: a table that is drawn with pipes and rules, as in Markdown
- `columnar`: parquet and Arrow to rows, with the names of labels
- `frames`: tables in memory: pandas, polars, Arrow, `datasets`
- `table_rows`: `TableRows`, rows with their line numbers, and `TableError`; what parses a table does
  not know its name, which `files` and `frames` add

The meaning of single cells is in `tasks.cells`.
"""
