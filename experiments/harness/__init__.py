"""Shared code of the scripts in the folder above: an experiment as a command, its grid of runs,
tables, figures, records.

- `command`: a table or a figure as one script (`Experiment`, `ExperimentOptions`); any other script
  (`script`)
- `grid`: cells of tables, each a configuration and a method; their runs
- `dry_run`: the stages that the cells would need, their LM tokens and their time
- `inside`: what scripts read from inside a run; with `grid` the only modules that know how runs are
  made
- `crossed`: runs by their places in a table: values, differences, means, costs, parts of the
  queries
- `programs`: queries whose gold outputs are one program, which are resampled together
- `table`: the tables of an experiment that was just run
- `results_file`: published records, one line a run
- `panels`: figures of several panels, and their files
- `drawing`: figures that several experiments share
"""
