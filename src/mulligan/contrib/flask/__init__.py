"""mulligan's dashboard in an application of Flask's, or any that can register a blueprint.

    from mulligan.contrib.flask import Principal, dashboard

    web.register_blueprint(dashboard(app, authenticate=who), url_prefix="/mulligan")

To enqueue nothing is needed: `task.enqueue(…)` in a view.
"""

from mulligan.contrib.missing import missing

try:
    from mulligan.contrib.flask.blueprint import dashboard
    from mulligan.server.principal import Principal
except ModuleNotFoundError as error:
    raise missing(error, __name__, "flask") from error

__all__ = ["Principal", "dashboard"]
