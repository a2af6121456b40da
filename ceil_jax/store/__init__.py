"""Folders and files on disk, so that a command that was killed goes on where it was. It knows no
room above it.

- `folder`: folders that are finished or not; files that appear whole
- `locking`: one process at a time in a folder; a full or unwritable disk as one line
- `places`: paths with `~`, and the home folder
- `sidecars`: files of file managers and editors, which are never content
- `hub_cache`: folders that the Hugging Face hub's cache makes
- `weights`: whether a model has safetensors, before anything of it is fetched
- `code`: the code of plugins, as part of a key
- `hashing`: hashes of values, files and folders
- `cost`: `Cost`, seconds and LM tokens
- `shards`: `Shard`, one of several jobs that share the reading of an LM
- `progress`: one progress bar for a whole command
"""
