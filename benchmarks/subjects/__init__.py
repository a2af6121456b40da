"""One file a subject: see `benchmarks.harness`."""
