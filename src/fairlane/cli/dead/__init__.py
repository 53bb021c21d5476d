"""`fairlane dead`: messages and jobs that are not tried any more."""
