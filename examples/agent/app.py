"""A tool loop of durable steps: what was paid for is never paid for again."""

import asyncio
import json
import os
from typing import Any
from urllib.request import Request, urlopen

from mulligan import Delays, Mulligan, Retry, Settings, astep, current_job

# A lost worker is missed after a second, so that the proof does not take all day.
SETTINGS = Settings(lease=1.5, beat=0.3, concurrency=1)
AT_ONCE = Retry(max_retries=100, backoff=Delays((0,)))
MOST_TURNS = 100

app = Mulligan(os.environ.get("AGENT_STORE"), settings=SETTINGS)


async def call(asked: dict[str, Any], key: str) -> Any:
    """Ask the service; with the same key it bills once."""

    def post() -> Any:
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        request = Request(os.environ["AGENT_SERVICE"], json.dumps(asked).encode(), headers)  # noqa: S310 - ours
        with urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
            return json.loads(answer.read())

    return await asyncio.to_thread(post)


async def paid(name: str, asked: dict[str, Any]) -> Any:
    """A durable step: its answer is recorded, and its key is the same at every attempt."""
    return await astep(name, call, asked, current_job().step_key(name))


@app.task(retry=AT_ONCE)
async def answer(question: str, turns: int) -> str:
    """Think, use a tool, and think again, until the answer is known."""
    job = current_job()
    notes: list[str] = []
    for turn in range(MOST_TURNS):
        thinking = {"tool": "think", "question": question, "notes": notes, "turns": turns}
        thought = await paid(f"think-{turn}", thinking)
        if thought["tool"] == "finish":
            return str(thought["answer"])
        notes.append(await paid(f"use-{turn}", thought))
        job.progress(turn + 1, of=turns, note=thought["tool"])
        job.log(notes[-1])
    raise RuntimeError(f"no answer after {MOST_TURNS} turns")
