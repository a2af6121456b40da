"""Runs shown to a reader: comparisons, tables, figures and pages. Running them is `pipeline`'s, printing `cli`'s.

- `table`: a table of typed cells with Markdown, CSV, text and HTML renderings
- `compare`: several methods on one task (`compare`, `Comparison`)
- `grid`: runs of many configurations, each computed once (`Cell`, `Entry`, `Measured`, `Grid`)
- `experiment_table`: the table of one experiment
- `published`: an experiment's runs as published records, and a results file as tables
- `run_tables`: stored records as tables, with the paper's numbers
- `write`: the HTML report of a comparison, or of folders of runs
- `page`: the page itself (page.html, page.css, page.js), with the data of its browser of examples
- `plots`, `closeup`: drawing functions, and the figure of a comparison
- `dry_run`: the stages, tokens and time that an experiment would take
- `stand_ins`: the tools of a dry run: an LM that counts, estimates in place of vectors, searches and training
"""
