"""Helpers that open Fairlane with a web application and close it with it; each needs an extra."""
