"""Benchmarks of speed, ours and peers side by side in one process: `python -m benchmarks`."""
