import time

from fairlane.testing import local_server

with local_server() as server:
    print(server.url, flush=True)
    while True:
        time.sleep(1)  # until Ctrl-C
