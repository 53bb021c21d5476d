"""`fairlane worker`: worker processes, supervised."""
