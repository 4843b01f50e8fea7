"""A model and its tools, as a service that bills each call once, by its idempotency key."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# What the model has done, in this order, before it knows the answer.
TOOLS = ("search", "read", "calculate")


class Ledger:
    """What was billed, and what was asked, by key."""

    def __init__(self) -> None:
        self.billed: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self._answers: dict[str, Any] = {}
        self._lock = threading.Lock()

    def answer(self, key: str, asked: dict[str, Any]) -> tuple[Any, bool]:
        """The answer, and whether this call was billed."""
        with self._lock:
            self.asked[key] += 1
            if key in self._answers:
                return self._answers[key], False
            self.billed[key] += 1
            self._answers[key] = think(asked) if asked["tool"] == "think" else use(asked)
            return self._answers[key], True


def think(asked: dict[str, Any]) -> dict[str, Any]:
    """What the model wants next: a tool, or to finish."""
    notes = asked["notes"]
    if len(notes) >= asked["turns"]:
        return {"tool": "finish", "answer": f"{asked['question']}: {len(notes)} things were found"}
    return {"tool": TOOLS[len(notes) % len(TOOLS)], "about": f"{asked['question']} #{len(notes)}"}


def use(asked: dict[str, Any]) -> str:
    """What a tool finds."""
    return f"{asked['tool']} of {asked['about']}"


class Service:
    """The service on a port of this machine; `billed` is called before a new bill is answered."""

    def __init__(self, billed: Callable[[], None] = lambda: None) -> None:
        self.ledger = ledger = Ledger()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer, is_new = ledger.answer(self.headers["Idempotency-Key"], asked)
                if is_new:
                    billed()
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

            def handle(self) -> None:
                """Callers are killed."""
                try:
                    super().handle()
                except ConnectionError:
                    self.close_connection = True

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
