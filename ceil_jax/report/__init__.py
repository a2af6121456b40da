"""Runs shown to a reader: comparisons, tables, figures and pages. Running them is `pipeline`'s, printing `cli`'s.

- `table`: a table of typed cells with Markdown, CSV, text and HTML renderings
- `compare`: several methods on one task (`compare`, `Comparison`)
- `grid`: runs of many configurations, each computed once (`Cell`, `Entry`, `Measured`, `Grid`)
- `runs`: a method's runs over seeds (`Runs`): value, interval, differences, parts and costs, for every table
- `run_tables`: tables with a row for each method, with the paper's numbers
- `experiment_table`: tables of rows and columns (`Crossed`) and all tables of one experiment
- `published`: an experiment's runs as published records, and a results file as tables
- `write`: the HTML report of a comparison, or of folders of runs
- `page`: the page itself (page.html, page.css, page.js), with the data of its browser of examples
- `plots`, `closeup`: drawing functions, and the figure of a comparison
- `dry_run`: the stages, tokens and time that an experiment would take
- `stand_ins`: the tools of a dry run: an LM that counts, estimates in place of vectors, searches and training
"""
