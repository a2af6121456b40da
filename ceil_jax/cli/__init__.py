"""The commands; what they compute lives in the other rooms.

- `main`: the command `ceil-jax`, and what all commands share (`command`)
- `commands`: its sub-commands
- `first`: what will fail, fails first: flags, names, libraries, servers, data and models
- `mistakes`: a command line that cannot be read, in one line with a suggestion
- `task_list`: the list of tasks with their metrics, and the details of a task
- `data_flags`: a named task, or a file of the user's own
- `propose`: the columns and the metric of a file that were not named
- `helptext`: help texts of dataclass fields as paragraphs, in short (`--help`) and all of them
  (`--help-all`)
"""
