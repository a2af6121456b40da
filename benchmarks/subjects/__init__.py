"""The subjects of the benchmarks, one file each; see `benchmarks.harness`."""
