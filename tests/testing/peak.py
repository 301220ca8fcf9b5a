"""Runs a command and appends its peak resident memory in bytes as the last line of its output.

A process of its own, and a small one: the peak of a process counts from the fork, with the memory of who forked it."""

import os
import sys

if __name__ == "__main__":
    pid = os.fork()
    if pid == 0:
        os.execv(sys.argv[1], sys.argv[1:])
    _, status, usage = os.wait4(pid, 0)
    print(usage.ru_maxrss * 1024)
    sys.exit(os.waitstatus_to_exitcode(status) & 255)
