"""A worker process for tests: prints what it begins with and what it has done, and works slowly where it is told to."""

import sys
import time

from headrace import Queue


def main(bootstrap: str, topic: str, group: str, seconds: str) -> None:
    with Queue(topic, group=group, bootstrap=bootstrap, values=str) as queue:
        for job in queue:
            print("begun", job.value, job.attempt, flush=True)
            time.sleep(float(seconds))
            print("done", job.value, flush=True)
    print("ended", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
