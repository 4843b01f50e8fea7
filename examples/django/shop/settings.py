"""A shop whose jobs are kept in its own database: SQLite, or PostgreSQL by SHOP_DATABASE."""

import os
from pathlib import Path
from urllib.parse import urlsplit

import django

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = os.environ.get("SHOP_SECRET_KEY", "only-for-this-example")
DEBUG = True
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
ROOT_URLCONF = "shop.urls"
WSGI_APPLICATION = "shop.wsgi.application"
STATIC_URL = "static/"
LOGIN_URL = "admin:login"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    *(["django_tasks"] if django.VERSION < (6,) else []),
    "mulligan.contrib.django",
    "shop",
]

TASKS = {
    "default": {
        "BACKEND": "mulligan.contrib.django.Backend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {
            "database": "default",  # or "url": "redis://…"
            "timeout": 30,
            "keep": 7 * 86_400,  # results, in seconds
            "queues": {"mail": {"policy": "weighted(retry=0.2)"}},
        },
    }
}

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

TEMPLATES = [
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
]

server = urlsplit(os.environ.get("SHOP_DATABASE", ""))
if server.scheme.startswith("postgres"):
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": server.hostname,
            "PORT": str(server.port or 5432),
            "USER": server.username or "",
            "PASSWORD": server.password or "",
            "NAME": server.path[1:],
        }
    }
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.environ.get("SHOP_DATABASE", BASE_DIR / "shop.sqlite3"),
            "OPTIONS": {"transaction_mode": "IMMEDIATE"},
        }
    }
