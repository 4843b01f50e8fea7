"""The app behind each backend of TASKS: one in a process, however many threads ask for it."""

import logging
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import autodiscover_modules, import_string
from msgspec import Struct

from mulligan import Mulligan, Settings
from mulligan.contrib.django.call import Caller
from mulligan.contrib.django.compat import base, tasks
from mulligan.contrib.django.database import Neighbours, url_of
from mulligan.contrib.django.task import OURS, options_of, priority_of
from mulligan.core.errors import InvalidError

log = logging.getLogger("mulligan.django")
# What OPTIONS may say besides the options of tasks.
OF_THE_APP = ("url", "database", "settings", "signing_keys", "queues", "modules", "transactional")
SCHEDULED = ("cron", "every", "timezone")


class Home(Struct, eq=False):
    """An app, the settings that it was made from, and Django's tasks in it by their paths."""

    app: Mulligan
    url: str | None
    params: Mapping[str, Any]
    neighbours: Neighbours
    caller: Caller
    tasks: dict[str, Any] = {}
    looked_at: set[str] = set()

    @property
    def database(self) -> str | None:
        """The database of Django's that the jobs are kept in by the settings, if any."""
        options = self.params.get("OPTIONS", {})
        return None if "url" in options else options.get("database")

    @property
    def named_modules(self) -> set[str]:
        """Modules with tasks that the settings name."""
        return set(self.params.get("OPTIONS", {}).get("modules", ()))

    @property
    def modules(self) -> set[str]:
        """The modules that workers import to know their tasks, as far as there are such."""
        return {f"{config.name}.tasks" for config in apps.get_app_configs()} | self.named_modules

    def warn_if_unknown(self, task: Any) -> None:
        """Log, once, that no worker will know the task, for it is in none of their modules."""
        module = task.func.__module__
        if task.module_path in self.looked_at:
            return
        self.looked_at.add(task.module_path)
        if not any(f"{module}.".startswith(f"{known}.") for known in self.modules):
            log.warning(
                "task %s is in module %s, which workers do not import; move it to a module"
                " tasks of an app in INSTALLED_APPS, or name the module in OPTIONS['modules']",
                task.module_path,
                module,
            )

    @property
    def defaults(self) -> dict[str, Any]:
        """The options of tasks that say nothing themselves."""
        return {k: v for k, v in self.params.get("OPTIONS", {}).items() if k in OURS}

    def add(self, task: Any, *, scheduled: bool = True) -> None:
        """Make Django's task one of the app, under the path of its function, unless it is."""
        path = task.module_path
        known = self.tasks.get(path)
        if known is not None and known.func is task.func:
            return
        options = options_of(task, self.defaults)
        for name in () if scheduled else SCHEDULED:
            options.pop(name, None)
        self.app.tasks.pop(path, None)  # of a module that was imported again
        options |= {"queue": task.queue_name, "priority": priority_of(task)}
        self.app.task(name=path, **options)(self.caller.job_of(task))
        self.tasks[path] = task


homes: dict[str, Home] = {}
lock = threading.RLock()


def home_of(alias: str, params: Mapping[str, Any] | None = None) -> Home:
    """The app of this backend, made anew when its settings have changed, as in tests."""
    if params is None:
        params = tasks.task_backends.settings[alias]
    options = params.get("OPTIONS", {})
    with lock:
        try:
            url = url_in(options)
            home = homes.get(alias)
            if home is None or home.url != url or home.params != params:
                homes[alias] = made(alias, url, params, {} if home is None else home.tasks)
        except InvalidError as error:
            raise ImproperlyConfigured(f"TASKS[{alias!r}]: {error}") from error
        return homes[alias]


def url_in(options: Mapping[str, Any]) -> str | None:
    """Where the jobs are: at a URL, or in a database of Django's."""
    for name in options:
        if name not in (*OF_THE_APP, *OURS):
            raise InvalidError(f"option {name!r} is not one of {', '.join((*OF_THE_APP, *OURS))}")
    url: str | None = options.get("url")
    if url is None and "database" in options:
        return url_of(options["database"])
    return url


def made(alias: str, url: str | None, params: Mapping[str, Any], known: Mapping[str, Any]) -> Home:
    """A new app by these settings, with the tasks that are known."""
    options = params.get("OPTIONS", {})
    given = options.get("settings")
    app = Mulligan(
        url,
        settings=Settings(**given) if isinstance(given, Mapping) else given,
        signing_keys=options.get("signing_keys"),
    )
    app.called = f"mulligan.contrib.django.app:{alias}"
    for name in params.get("QUEUES", ["default"]):
        app.queue(name)
    for name, queue in options.get("queues", {}).items():
        app.queue(name, **queue)
    caller = Caller(app, alias, import_string(params["BACKEND"]))
    app.on("success")(caller.tell_finished)
    app.on("dead")(caller.tell_finished)
    home = Home(app, url, params, Neighbours(app), caller)
    if home.database is not None and not app.url.startswith("memory:"):
        home.neighbours.add(home.database)
    for task in known.values():
        home.add(task)
    return home


def our_aliases() -> list[str]:
    """The backends of TASKS that are ours."""
    from mulligan.contrib.django.backend import Backend  # noqa: PLC0415 - which needs this module

    return [
        alias
        for alias, params in tasks.task_backends.settings.items()
        if issubclass(import_string(params["BACKEND"]), Backend)
    ]


def discover(alias: str) -> Mulligan:
    """The app with every task that its workers may be asked for.

    Those in modules called `tasks` of the installed apps, and in OPTIONS["modules"]. A task of
    another backend may be sent here by `using(backend=…)`; its schedule is that backend's.
    """
    if alias not in our_aliases():
        raise InvalidError(
            f"backend {alias!r} is not one of mulligan's in TASKS;"
            f" those are: {', '.join(our_aliases()) or 'none'}"
        )
    home = home_of(alias)
    autodiscover_modules("tasks")
    for name in home.named_modules:
        import_module(name)
    for name in home.modules & sys.modules.keys():
        for value in vars(sys.modules[name]).values():
            if isinstance(value, base.Task):
                home.add(value, scheduled=value.backend == alias)
    return home.app
