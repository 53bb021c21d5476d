from fairlane.testing import local_server

with local_server() as server:
    input(f"{server.url} (Enter ends it) ")
