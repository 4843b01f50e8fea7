"""A stub of an AI service: slow, moody, and always in the same way for the same seed.

python -m examples.announcements.service --port 8765 --seed 1
"""

import argparse
import json
import random
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import urlopen

CATEGORIES = ("earnings", "merger", "management", "product")
# Out of a hundred answers.
MOODS = ("answers", "says Error", "times out", "breaks off")
WEIGHTS = (50, 25, 10, 15)


class Handler(BaseHTTPRequestHandler):
    """Answers `GET /classify/N`, or does not; `GET /moods` says how often it did what."""

    server: "Service"

    def do_GET(self) -> None:
        """Classify an announcement, in the mood of the moment."""
        _, what, *rest = self.path.split("/")
        if what == "moods":
            self._say(dict(self.server.moods))
            return
        mood = self.server.mood(int(rest[0]))
        if mood == "breaks off":
            self.close_connection = True
            return
        if mood == "times out":
            time.sleep(1.0)
        category = CATEGORIES[int(rest[0]) % len(CATEGORIES)]
        self._say({"category": "Error" if mood == "says Error" else category})

    def _say(self, value: dict[str, object]) -> None:
        body = json.dumps(value).encode()
        try:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            pass  # who asked has given up

    def log_message(self, *_: object) -> None:
        """Quiet."""


class Service(ThreadingHTTPServer):
    """The service, and a count of its moods."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, seed: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self._seed = seed
        self._asked: Counter[int] = Counter()
        self._lock = threading.Lock()
        self.moods: Counter[str] = Counter()

    def mood(self, number: int) -> str:
        """Its mood when it is asked about this announcement for the n-th time."""
        with self._lock:
            self._asked[number] += 1
            chance = random.Random(f"{self._seed}/{number}/{self._asked[number]}")
            [mood] = chance.choices(MOODS, WEIGHTS)
            self.moods[mood] += 1
            return mood

    def handle_error(self, *_: object) -> None:
        """Quiet: who asked may have been killed."""


def ask(service: str, number: int, timeout: float) -> str:
    """The category of an announcement, which may be "Error"."""
    with urlopen(f"{service}/classify/{number}", timeout=timeout) as answer:  # noqa: S310
        category: str = json.load(answer)["category"]
        return category


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    Service(asked.port, asked.seed).serve_forever()
