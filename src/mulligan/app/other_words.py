"""The words of other queues: an error about one of them says what to write here."""

from collections.abc import Iterable

from mulligan.core.nearest import nearest

# Options of tasks and calls in Celery, RQ, Dramatiq, Huey, arq, Taskiq and SAQ.
OPTIONS = {
    "acks_late": "nothing to set: a job whose worker dies always runs again",
    "autoretry_for": "retry=Retry(on=...)",
    "bind": "current_job() inside the task",
    "countdown": "using(delay=...)",
    "default_retry_delay": "retry=Retry(backoff=Delays(...))",
    "dont_autoretry_for": "retry=Retry(never=...)",
    "eta": "using(run_after=...)",
    "ignore_result": "keep=0",
    "job_id": "using(id=...)",
    "job_timeout": "timeout=",
    "lock": "using(unique_key=...)",
    "max_backoff": "retry=Retry(backoff=Exponential(max=...))",
    "max_retries": "retry=Retry(max_retries=...)",
    "max_tries": "retry=Retry(max_retries=...), which does not count the first attempt",
    "min_backoff": "retry=Retry(backoff=Exponential(...))",
    "queue_name": "queue=",
    "rate_limit": "app.limit('name', rate=..., per=...), and limits='name' here",
    "reject_on_worker_lost": "nothing to set: a job whose worker dies always runs again",
    "result_expires": "keep=",
    "result_ttl": "keep=",
    "retries": "retry=Retry(max_retries=...)",
    "retry_backoff": "retry=Retry(backoff=Exponential(...))",
    "retry_backoff_max": "retry=Retry(backoff=Exponential(max=...))",
    "retry_delay": "retry=Retry(backoff=Delays(...))",
    "retry_jitter": "retry=Retry(backoff=Exponential(jitter='full'))",
    "routing_key": "queue=",
    "serializer": "nothing to set: arguments are JSON, with their types",
    "soft_time_limit": "soft_timeout=",
    "task_id": "using(id=...)",
    "throws": "retry=Retry(never=...)",
    "time_limit": "timeout=",
    "ttl": "using(expires=...)",
}

# Methods of their tasks.
METHODS = {
    "apply": "a plain call, {task}(...), which runs the function here and now",
    "apply_async": "{task}.using(delay=..., queue=...).enqueue(...)",
    "chunks": "app.enqueue_many({task}.call(x) for x in ...)",
    "configure": "{task}.using(...)",
    "defer": "{task}.enqueue(...)",
    "defer_async": "await {task}.aenqueue(...)",
    "delay": "{task}.enqueue(...)",
    "kicker": "{task}.using(...)",
    "kiq": "await {task}.aenqueue(...)",
    "map": "app.enqueue_many({task}.call(x) for x in ...)",
    "message": "{task}.call(...)",
    "retry": "raise RetryAfter(seconds), or let the exception pass: the policy decides",
    "s": "{task} itself in a chain, {task}.partial(...) or {task}.call(...)",
    "schedule": "{task}.using(delay=...).enqueue(...)",
    "send": "{task}.enqueue(...)",
    "send_with_options": "{task}.using(...).enqueue(...)",
    "si": "{task}.without_result(...)",
    "signature": "{task}.partial(...) in a chain, {task}.call(...) elsewhere",
    "starmap": "app.enqueue_many({task}.call(*x) for x in ...)",
    "update_state": "current_job().progress(...) inside the task",
}

# What their apps and brokers have.
APP = {
    "AsyncResult": "app.job(id)",
    "actor": "@app.task",
    "aenqueue": "await task.aenqueue(...) of the task itself",
    "add_periodic_task": "@app.task(cron=...) or app.schedules.put(...)",
    "autodiscover_tasks": "an import of the modules with tasks, where the app is made",
    "chord": "app.gather(calls, then)",
    "conf": "Mulligan(url, settings=Settings(...)), and app.queue(...)",
    "config_from_object": "Mulligan(url, settings=Settings(...)), and app.queue(...)",
    "control": "mulligan cancel, pause and drain",
    "enqueue": "task.enqueue(...) of the task itself",
    "group": "app.enqueue_many(...)",
    "periodic_task": "@app.task(cron=...) or @app.task(every=...)",
    "run_task": "task.enqueue(...) of the task itself",
    "send": "task.enqueue(...) of the task itself",
    "send_task": "task.enqueue(...) of the task itself, or POST /api/jobs",
}


def option_here(name: str, known: Iterable[str]) -> str:
    """What to write instead of an unknown option, as the end of an error; empty if unknown."""
    if name in OPTIONS:
        return f"; here it is {OPTIONS[name]}"
    return nearest(name, known)


def app_here(name: str) -> str:
    """What to write instead of an attribute that an app lacks, as the end of an error."""
    return f"; here it is {APP[name]}" if name in APP else ""


def method_here(name: str, task: str) -> str:
    """What to write instead of a method that a task lacks, as the end of an error."""
    return f"; here it is {METHODS[name].format(task=task)}" if name in METHODS else ""
