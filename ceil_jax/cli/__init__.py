"""The command-line interface, `ceil-jax`. The other subpackages do the computing.

- `main`: the command `ceil-jax`, and `command`, which all commands of the project use
- `commands`: its sub-commands; `demo`: the one that needs no data
- `first`: the first checks of every command: flags, names, libraries, servers, data and models
- `task_list`: the list of tasks with their metrics, and the details of a task
- `data_flags`: the flags of a user's file, and the task of a command
- `propose`: proposals for the columns and the metric of a file
- `helptext`: the flags of settings, and their help texts
"""
