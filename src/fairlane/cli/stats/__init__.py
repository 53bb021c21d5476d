"""`fairlane stats`: what a deployment holds, once or again and again."""
