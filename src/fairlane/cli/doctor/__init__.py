"""`fairlane doctor`: is everything there that the guarantees rest on?"""
