#!/usr/bin/env python3
"""Runs a command and writes its exit code, wall time and peak resident memory: measure.py REPORT.json COMMAND…

A small process of its own, because a child's peak begins with the size of the process it was forked from.
"""
import json
import os
import subprocess
import sys
import time

start = time.perf_counter()
child = subprocess.Popen(sys.argv[2:])
_, status, usage = os.wait4(child.pid, 0)
seconds = time.perf_counter() - start
child.returncode = os.waitstatus_to_exitcode(status)
# Linux counts in KiB, macOS in bytes.
peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
with open(sys.argv[1], "w") as report:
    json.dump({"exit": child.returncode, "seconds": seconds, "peak_rss_bytes": peak}, report)
