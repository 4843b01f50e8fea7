"""A project of Django's in the process of the tests, and databases that come and go."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import django
import psycopg
from django.conf import settings
from django.core.management import call_command
from django.db import connections
from psycopg import sql

SETTINGS: dict[str, Any] = {
    "ALLOWED_HOSTS": ["testserver"],
    "DATABASES": {},
    "INSTALLED_APPS": [
        "django.contrib.admin",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "django.contrib.messages",
        *(["django_tasks"] if django.VERSION < (6,) else []),
        "mulligan.contrib.django",
    ],
    "LOGIN_URL": "admin:login",
    "MIDDLEWARE": [
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    "PASSWORD_HASHERS": ["django.contrib.auth.hashers.MD5PasswordHasher"],
    "ROOT_URLCONF": "tests.django.urls",
    "SECRET_KEY": "of tests",
    "STATIC_URL": "static/",
    "TASKS": {"default": {"BACKEND": "mulligan.contrib.django.Backend", "QUEUES": []}},
    "TEMPLATES": [
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]
            },
        }
    ],
    "USE_TZ": True,
}


def set_up() -> None:
    """Set Django up, once in a process."""
    if not settings.configured:
        settings.configure(**SETTINGS)
    django.setup()


def database_settings(url: str) -> dict[str, Any]:
    """The settings of Django's for the database at this URL of SQLite or PostgreSQL."""
    if url.startswith("sqlite:"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": url.removeprefix("sqlite:///")}
    parts = urlsplit(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.removeprefix("/"),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port),
        "USER": parts.username or "",
        "PASSWORD": parts.password or "",
    }


@contextmanager
def connection_to(url: str, alias: str) -> Iterator[Any]:
    """A connection of Django's, known to it by this alias."""
    set_up()
    told = {"default": {}, alias: database_settings(url)}
    before = connections.settings.get("default", {})
    connections.settings |= connections.configure_settings(told)
    forget(alias)
    try:
        yield connections[alias]
    finally:
        forget(alias)
        del connections.settings[alias]
        connections.settings["default"] = before


def forget(alias: str) -> None:
    """Close the connection of this alias, if there is one; the next is made by the settings."""
    for connection in connections.all(initialized_only=True):
        if connection.alias == alias:
            connection.close()
            del connections[alias]


@contextmanager
def postgres_database(server: str) -> Iterator[str]:
    """The URL of a new database on this server, which is dropped afterwards."""
    name = f"django_{secrets.token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield urlsplit(server)._replace(path=f"/{name}").geturl()
        finally:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            connection.execute(drop)


@cache
def migrated() -> bytes:
    """A SQLite database with Django's tables, which are made once in a process."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "migrated.db")
        with connection_to(f"sqlite:///{path}", "default"):
            call_command("migrate", verbosity=0)
        return path.read_bytes()


@contextmanager
def project_on(url: str) -> Iterator[Any]:
    """Django's default database at this URL, with its tables."""
    if url.startswith("sqlite:"):
        Path(url.removeprefix("sqlite:///")).write_bytes(migrated())
    with connection_to(url, "default") as connection:
        if not url.startswith("sqlite:"):
            call_command("migrate", verbosity=0)
        yield connection
