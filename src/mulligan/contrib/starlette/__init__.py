"""mulligan in an application of Starlette's or FastAPI's.

from mulligan.contrib.starlette import Dashboard, get_app, job_events, lifespan

api = FastAPI(lifespan=lifespan(app))
api.mount("/mulligan", Dashboard(app, authenticate=who))
"""

from mulligan.contrib.missing import missing

try:
    from mulligan.contrib.starlette.job_events import job_events, state_of
    from mulligan.contrib.starlette.lifespan import get_app, lifespan
    from mulligan.server.mount import Dashboard
    from mulligan.server.principal import Principal
except ModuleNotFoundError as error:
    raise missing(error, __name__, "starlette") from error

__all__ = ["Dashboard", "Principal", "get_app", "job_events", "lifespan", "state_of"]
