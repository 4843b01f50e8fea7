"""What the shop does, and what comes of it: run a worker first.

arq tasks.WorkerSettings
"""

import asyncio

from arq import create_pool
from tasks import SETTINGS


async def main() -> None:
    """Several jobs, a mail later, a failure, and a mail that is called back."""
    pool = await create_pool(SETTINGS)
    jobs = [await pool.enqueue_job("fetch_price", item) for item in ("tea", "milk", "sugar")]
    prices = [await job.result(timeout=60) for job in jobs]
    basket = await pool.enqueue_job("total", prices)
    print(f"the basket costs {await basket.result(timeout=60)}")
    mail = await pool.enqueue_job("send_mail", "ada", "thank you", _defer_by=1)
    print(await mail.result(timeout=60))
    gold = await pool.enqueue_job("fetch_price", "gold")
    try:
        await gold.result(timeout=60)
    except ConnectionError as error:
        print(f"failed: {error}")
    later = await pool.enqueue_job("send_mail", "bob", "never mind", _defer_by=3600)
    await later.abort(timeout=60)
    print("the mail to bob is called back")
    await pool.aclose()


if __name__ == "__main__":
    asyncio.run(main())
