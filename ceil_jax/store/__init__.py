"""The work of runs on disk, so that a command that was killed goes on where it was.

A run is a set of stages; a stage is a folder named by the hash of everything it depends on. Two runs that need the
same stage share it. What a stage computes is no business of this room.

- `store`: `Store`, a folder of stages
- `stage`: `Stage`, one folder: files that appear whole or not at all, rows in a journal, a summary written last
- `looking`: a store that only looks, for dry runs
- `rows`: `Rows` and `Cost`, the rows of a stage and what they cost; `Chunk` and `Engine`, how they are made
- `journal`: append-only JSON lines, each with a checksum
- `shards`: `Shard`, rows that several jobs make apart from each other, and their merging
- `locking`: one process at a time in a folder; files that appear whole; a full or unwritable disk as one line
- `hashing`: hashes of values, files and folders
- `keys`: what a configuration contributes to a stage's key: the fields that differ from a frozen baseline
"""
