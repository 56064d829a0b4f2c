"""Runs a job in several processes of one consumer group: its documentation's way to use more than one core."""

import subprocess
import sys

count, job = int(sys.argv[1]), sys.argv[2]
workers = [subprocess.Popen([sys.executable, job]) for _ in range(count)]
sys.exit(max(abs(worker.wait()) for worker in workers))
