"""Folders and files on disk, written so that a killed command can be resumed.

- `kept`: `kept` functions, `Lazy` values and their keys
- `folder`: folders that are finished or not, filled by one process; JSON and arrays in files
- `locking`: one process at a time in a folder; files that are written whole or not at all; errors
  of a full or unwritable disk
- `opened`: reading a folder that anybody may have written
- `places`: paths with `~`, and the home folder
- `hub`: whether the Hugging Face hub can be reached, and the folders of its cache
- `weights`: whether a model has safetensors, checked before it is fetched
- `code`: the code of plugins, as part of a key
- `hashing`: hashes of values, files and folders; which files of a folder are its content
- `cost`: `Cost`, seconds and LM tokens
- `progress`: one progress bar for a whole command
"""
