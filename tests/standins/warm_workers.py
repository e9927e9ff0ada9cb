"""`python -m tests.standins.warm_workers cuda|hip`: a worker for each line of JSON on standard input, forked from a process
that has imported what a worker imports, which takes longer than all that most of them do. Prints the exit status of each.

A line names the files that a worker has as its standard streams, its environment, and what the host is.
"""

from __future__ import annotations

import json
import os
import sys

from hostdoctor.bandwidth import machine, worker


def become(asked):
    """In the child: be the worker."""
    status = 99
    try:
        os.environ.clear()
        os.environ.update(asked["environment"])
        for number, path in enumerate(asked["streams"]):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
        sys.stdin = open(0)  # noqa: SIM115
        status = worker.main(sys.argv[1:], machine.Machine(*asked["machine"]) if asked["machine"] else None)
    finally:
        os._exit(status)


if __name__ == "__main__":
    if sys.argv[1] == "hip":
        from hip import hip  # noqa: F401

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            become(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)  # noqa: T201
