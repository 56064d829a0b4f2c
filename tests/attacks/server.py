"""A server in a process with a low limit of open files: `python -m tests.attacks.server DIR LIMIT [BODY_SECONDS]`.

Prints its port. Each line at its input has it open a file, as an epoch would, and print how many connections there are.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

if __name__ == "__main__":
    limit = int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit // 2, limit))  # the soft limit is raised by the server

    from penstock.serve.server import Server
    from penstock.serve.settings import Limits, Settings

    limits = Limits(body_seconds=float(sys.argv[3]) if len(sys.argv) > 3 else 30.0)
    with Server(Path(sys.argv[1]), Settings(port=0, limits=limits)) as server:
        print(server.port, flush=True)
        for line in sys.stdin:
            files = [(Path(sys.argv[1]) / f"{line.strip()}-{n}").open("w") for n in range(20)]
            for file in files:
                file.close()
            print(len(server._server.server_state.connections), flush=True)
