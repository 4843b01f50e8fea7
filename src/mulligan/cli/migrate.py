"""`migrate`: a store's schema."""

import click

from mulligan.cli.find_app import about_an_app_or_store, find_app, json_option, with_store
from mulligan.cli.show import print_json
from mulligan.stores.contract import Store


@click.command()
@json_option
@about_an_app_or_store
def migrate(named: str | None, *, as_json: bool, app: str | None, store: str | None) -> None:
    """Bring a store's schema up to date.

    Workers do this themselves when they start; run it to have it done before. It is safe to run
    again, and while workers run.
    """
    target = find_app(named, app, store)

    async def touch(opened: Store) -> None:
        """Read the facts, to show that the store works; opening it did the rest."""
        await opened.facts()

    with_store(target, touch, create=True)
    if as_json:
        print_json({"store": target.shown_url, "up_to_date": True})
    else:
        click.echo(f"The schema of {target.shown_url} is up to date.")
