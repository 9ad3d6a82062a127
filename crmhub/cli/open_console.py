"""`crmhub open`: print the address of the console, and open it in a browser."""

from __future__ import annotations

import os
import sys

import rich_click as click

from crmhub.cli.open_hub import author, base_url, opened_hub

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


@click.command(name="open")
@click.argument("client_id", required=False)
def open_console(client_id: str | None) -> None:
    """Print the address of the console, or of an account's page, and open it in a browser.

    While there is no console user, the address is a one-time link that creates the first one: open
    it yourself. It is valid for 24 hours, and a new link replaces the former one. Without a
    display, or in a pipe, the address is only printed.
    """
    with opened_hub() as hub:
        from crmhub.operators.users import setup_link
        from crmhub.server.processes import answers, local_host

        path = "/console"
        if client_id is not None:
            path += f"/accounts/{hub.load_account(client_id).client_id}"
        base, settings = base_url(hub), hub.settings
        # Behind a public address, the service may run on another machine.
        if settings.public_url is None and not answers(local_host(settings.host), settings.port):
            raise click.ClickException(
                f"crmhub does not answer at {base}. `crmhub serve` starts it; CRMHUB_HOST,"
                " CRMHUB_PORT or CRMHUB_PUBLIC_URL say where it is."
            )
        link = setup_link.issue_first(hub, by=author())
    address = base + (link.path if link else path)
    click.echo(address)
    if link:
        said = "Open this link: it creates your console user. It works once, for 24 hours."
        click.echo(said, err=True)
        # Every user of this machine sees the arguments of a browser, and could be faster.
        return
    # Without a display, Python would start a browser for text in this terminal.
    if sys.stdout.isatty() and (sys.platform == "darwin" or any(map(os.environ.get, _DISPLAYS))):
        import webbrowser

        webbrowser.open(address)
