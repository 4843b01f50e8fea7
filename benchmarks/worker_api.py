"""Claim-ack pairs per second through one server process, over loopback.

    python benchmarks/worker_api.py [STORE_URL] [--jobs 20000] [--batch 50] [--clients 4]

Starts `mulligan serve` on the store (an empty SQLite file unless one is named), enqueues jobs over
HTTP, and lets clients claim and ack them in batches. The clients speak raw HTTP/1.1, so that what
is measured is the server. Its CPU time is from start to stop, enqueueing included.
"""

import argparse
import asyncio
import json
import re
import resource
import subprocess
import sys
import tempfile
import time

JSON = "application/json"


class Client:
    """One connection that sends a request and reads its answer."""

    def __init__(self, reader, writer):
        self._reader, self._writer = reader, writer

    async def post(self, path, body):
        """The answer, decoded."""
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\n"
        self._writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", answer)[1])
        found = json.loads(await self._reader.readexactly(length))
        assert answer.startswith(b"HTTP/1.1 200"), found
        return found


async def connect(port):
    """A client of the server."""
    return Client(*await asyncio.open_connection("127.0.0.1", port, limit=2**24))


async def work(port, batch):
    """Claim and ack until nothing is left; how many were written."""
    client = await connect(port)
    worker = (await client.post("/worker/join", {"queues": ["bench"]}))["worker"]
    written = 0
    while True:
        jobs = (await client.post("/worker/claim", {"worker": worker, "limit": batch}))["jobs"]
        if not jobs:
            return written
        acks = [{"id": job["id"], "token": job["token"], "result": "ok"} for job in jobs]
        answers = (await client.post("/worker/ack", {"worker": worker, "jobs": acks}))["jobs"]
        written += sum(answer["verdict"] == "written" for answer in answers)


async def measure(port, options):
    """Enqueue everything, then claim and ack everything."""
    client = await connect(port)
    begin = time.perf_counter()
    for _ in range(options.jobs // 1000):
        await client.post("/api/jobs", [{"task": "noop", "args": [1], "queue": "bench"}] * 1000)
    middle = time.perf_counter()
    written = sum(
        await asyncio.gather(*(work(port, options.batch) for _ in range(options.clients)))
    )
    end = time.perf_counter()
    assert written == options.jobs, written
    return {
        "enqueued_per_second": round(options.jobs / (middle - begin)),
        "pairs_per_second": round(written / (end - middle)),
    }


def main():
    """Start the server, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", nargs="?")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--clients", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = options.url or f"sqlite:///{folder}/bench.db"
        command = [sys.executable, "-m", "mulligan", "serve", "--store", url, "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            try:
                port = next(
                    int(found[1])
                    for line in server.stderr
                    if (found := re.search(r"address +http://127.0.0.1:(\d+)", line))
                )
                measured = asyncio.run(measure(port, options))
            finally:
                server.terminate()
                server.stderr.read()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        measured["server_cpu_seconds"] = round(used.ru_utime + used.ru_stime, 2)
        print(json.dumps(measured, indent=2))


if __name__ == "__main__":
    main()
