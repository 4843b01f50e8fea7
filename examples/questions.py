"""Questions to an AI service that is often busy: the smallest useful app.

mulligan worker examples.questions:app          # in one shell
python -m examples.questions                    # in another
"""

import asyncio
import random

from mulligan import Exponential, Mulligan, Retry, current_job

app = Mulligan("sqlite:///questions.db")
app.queue("questions", policy="balanced")


@app.task(
    queue="questions",
    retry=Retry(max_retries=5, backoff=Exponential(0.5, max=10)),
    accept=lambda answer: answer["category"] != "Error",
    timeout=30,
)
async def ask(question: str) -> dict[str, str]:
    """Ask; the service times out now and then, and sometimes its answer is an error."""
    await asyncio.sleep(random.uniform(0.05, 0.2))
    chance = random.random()
    if chance < 0.2:
        raise TimeoutError("the service did not answer")
    if chance < 0.3:
        return {"question": question, "category": "Error"}
    return {"question": question, "category": f"answered at attempt {current_job().attempt}"}


if __name__ == "__main__":
    jobs = app.enqueue_many(ask.call(f"question {number}") for number in range(20))
    for job in jobs:
        print(job.id, job.result(timeout=60))
