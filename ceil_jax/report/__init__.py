"""Comparisons, tables, figures and pages of finished runs. `pipeline` runs them, and `cli` prints.

- `table`: a table of typed cells as Markdown, text, HTML and JSON
- `compare`: several methods on one task (`compare`, `Comparison`), and their report
- `runs`: a method's runs over seeds (`Runs`): value, interval, differences, parts, costs
- `run_tables`: tables with a row for each method, with the paper's numbers
- `significance`: which differences are significant, and how many queries would settle the others
- `show`: one query of a row, with the candidate sets that the row learnt from
- `dry_run`: what some rows would compute, before anything is computed
- `write`: the HTML report of folders of runs
- `page`: the page itself (page.html, page.css, page.js), with the data of its browser of examples
- `plots`: drawing functions
- `scatter`: scores against tokens as inline SVG
"""
