"""What do the whole lives of messages cost with each library? `python -m benchmarks.peers`."""
