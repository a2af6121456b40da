"""Seeded chaos: kills, damage and flipped bits, for minutes or hours. `make chaos`, or `python -m chaos --help`.

- `tally`: what was tried, what failed, and the seed that repeats it
- `damage`: harms to files
- `runs`: commands that write, killed at random moments; runs folders damaged and the command run again
- `readers`: flipped bits for everything that reads a file
"""
