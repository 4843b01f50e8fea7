"""A stranger's Django shop, written from the guide alone, with a worker process beside it."""

import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.app.user_connections import server_of
from tests.store_kit import fresh_url, require

SHOP = """
import django
from django.conf import settings

settings.configure(
    SECRET_KEY="x", ROOT_URLCONF="urls", ALLOWED_HOSTS=["*"], USE_TZ=True, MIDDLEWARE=[],
    DATABASES={"default": DATABASE},
)
django.setup()
from django.db import connection, transaction
from django.http import JsonResponse
from mulligan import Mulligan

app = Mulligan(STORE)

@app.task
def confirm(item: str) -> str:
    return f"{item} is confirmed"

def buy(request):
    item = request.GET["item"]
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO " + TABLE + " VALUES (%s)", [item])
            job = confirm.using(connection=connection).enqueue(item)
            if item == "coffee":
                raise LookupError("out of coffee")
    except LookupError:
        pass
    return JsonResponse({"job": job.id})
"""
URLS = """
from django.urls import path
import shop
urlpatterns = [path("buy", shop.buy)]
"""
VISIT = """
import shop
from django.db import connection
from django.test import Client
from mulligan import UnknownJobError

shop.app.configure()
with connection.cursor() as cursor:
    cursor.execute("CREATE TABLE " + shop.TABLE + " (item text)")
tea, coffee = [Client().post("/buy?item=" + item).json()["job"] for item in ("tea", "coffee")]
print(shop.app.job(tea).result(timeout=60))
try:
    shop.app.job(coffee).info()
except UnknownJobError:
    print("no coffee")
with connection.cursor() as cursor:
    cursor.execute("SELECT item FROM " + shop.TABLE)
    print(cursor.fetchall())
shop.app.close()
"""


@pytest.mark.prove
@pytest.mark.parametrize("engine", ["postgres", "sqlite"])
async def test_a_view_enqueues_in_its_atomic_block(engine, tmp_path):
    require(engine)
    async with fresh_url(engine, tmp_path) as url:
        parts = urlsplit(server_of(url))
        database: dict[str, str | None]
        if engine == "sqlite":
            database = {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": url.removeprefix("sqlite:///"),
            }
            table = "orders"
        else:
            place = {"HOST": parts.hostname, "PORT": str(parts.port), "USER": parts.username}
            database = {"ENGINE": "django.db.backends.postgresql", "NAME": parts.path[1:], **place}
            table = f"{url.rpartition('schema=')[2]}.orders"
        told = f"DATABASE, STORE, TABLE = {database!r}, {url!r}, {table!r}\n"
        (tmp_path / "shop.py").write_text(told + SHOP)
        (tmp_path / "urls.py").write_text(URLS)
        (tmp_path / "visit.py").write_text(VISIT)
        visit = started(tmp_path, "visit.py")
        worker = started(tmp_path, "-m", "mulligan", "worker", "shop:app", "--log-level", "error")
        try:
            said, _ = visit.communicate(timeout=120)
        finally:
            worker.terminate()
            worker.communicate(timeout=60)
            visit.kill()
    assert said.splitlines() == ["tea is confirmed", "no coffee", "[('tea',)]"]


def started(folder: Path, *command: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, *command], cwd=folder, stdout=subprocess.PIPE, text=True
    )
