"""Seeded chaos: kills, damage and flipped bits, for minutes or hours. `make chaos`, or `python -m chaos --help`.

- `kinds`: every kind of attack by its name; modules that are not there are left out
- `schedule`: kinds take turns until the time is up
- `tally`: what was tried, what failed, and the seed that repeats it
- `attempt`: one reading of something harmed, and what became of it
- `damage`: harms to files
- `runs`: commands that write, killed at random moments; runs folders damaged and the command run again
- `training`: scratch folders of stopped trainings, harmed or swapped
- `saves`: saves of a selector, killed
- `save_server`: the process whose children save
- `bit_flips`: damage to one file of a folder after another
- `selector_folders`: damaged folders of a selector
- `machine`: a selector against a slow model of it, with saves and loads
- `threads`: one selector and one folder in many threads' hands
- `readers`: flipped bits for everything else that reads a file
- `server`, `endpoint`: a fuzzer for `serve-lm`, and hostile answers to our client
"""
