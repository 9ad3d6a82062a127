"""An example for each command, which `crmhub COMMAND --help` shows at its end."""

from __future__ import annotations

import rich_click as click

EXAMPLES = {
    "serve": "crmhub serve --host 0.0.0.0 --workers 4",
    "worker": "crmhub worker --threads 16",
    "demo": "crmhub demo --port 8081",
    "account apply": "crmhub account apply accounts.toml --dry-run",
    "account export": "crmhub account export acme > accounts.toml",
    "account field-map": "crmhub account field-map acme --file map.json",
    "account create": 'crmhub account create "Acme" --adapter hubspot',
    "account list": "crmhub account list --json",
    "account show": "crmhub account show acme",
    "account set": "crmhub account set acme region=ES strict=true",
    "account adapter": "crmhub account adapter acme hubspot --secret access_token=@token.txt",
    "account link": "crmhub account link acme hubspot --secret client_id=@id --days 3",
    "account check": "crmhub account check acme",
    "account rotate": "crmhub account rotate acme secret --keep-old 2d",
    "account disable": "crmhub account disable acme --yes",
    "account enable": "crmhub account enable acme",
    "key create": "crmhub key create acme --scope contacts:read --expires 90d",
    "key list": "crmhub key list acme",
    "mcp": "crmhub mcp acme --scope contacts:read",
    "key revoke": "crmhub key revoke acme key_8k2m4q6s",
    "events list": "crmhub events list acme",
    "events add": "crmhub events add acme https://example.com/hook --type contact.created",
    "events change": "crmhub events change acme sub_5t0v7qk2 --type all",
    "events disable": "crmhub events disable acme sub_5t0v7qk2",
    "events enable": "crmhub events enable acme sub_5t0v7qk2",
    "events test": "crmhub events test acme sub_5t0v7qk2",
    "events deliveries": "crmhub events deliveries acme sub_5t0v7qk2 --state failed",
    "events replay": "crmhub events replay acme sub_5t0v7qk2 --since 12h",
    "events remove": "crmhub events remove acme sub_5t0v7qk2 --yes",
    "adapters": "crmhub adapters hubspot",
    "adapter new": "crmhub adapter new acme --to crmhub-acme",
    "actions list": "crmhub actions list --state failed --newer-than 1d",
    "actions tail": "crmhub actions tail --account acme",
    "actions show": "crmhub actions show act-0mwvlbwdp03a4x8qmqdb8w4u",
    "actions retry": "crmhub actions retry --account acme",
    "actions edit": "crmhub actions edit act-0mwvlbwdp03a4x8qmqdb8w4u dealstage=won",
    "actions discard": 'crmhub actions discard --account acme --reason "test data"',
    "sync status": "crmhub sync status acme",
    "sync load": "crmhub sync load acme",
    "sync compare": "crmhub sync compare acme",
    "duplicates list": "crmhub duplicates list acme",
    "duplicates merge": "crmhub duplicates merge acme 481516234211 481516234212 --dry-run",
    "duplicates unmerge": "crmhub duplicates unmerge acme 481516234211 481516234212",
    "duplicates dismiss": "crmhub duplicates dismiss acme 481516234211 481516234212",
    "alert list": "crmhub alert list",
    "alert test": "crmhub alert test",
    "admin token create": 'crmhub admin token create "night shift" --scope actions:read',
    "admin token list": "crmhub admin token list",
    "admin token revoke": "crmhub admin token revoke adm_5t0v7qk2",
    "admin user create": "crmhub admin user create ops@example.com --password-file -",
    "admin user invite": "crmhub admin user invite ann@example.com --role operator",
    "admin user link": "crmhub admin user link --url https://hub.example.com",
    "admin user reset": "crmhub admin user reset ops@example.com",
    "admin user list": "crmhub admin user list",
    "admin user role": "crmhub admin user role ann@example.com reader --account acme",
    "admin user remove": "crmhub admin user remove ann@example.com --yes",
    "admin user reset-second-factor": "crmhub admin user reset-second-factor ops@example.com",
    "admin user disable": "crmhub admin user disable ops@example.com",
    "admin user enable": "crmhub admin user enable ops@example.com",
    "admin user password": "crmhub admin user password ops@example.com --password-file -",
    "audit list": "crmhub audit list --account acme --newer-than 7d",
    "workflow enrol": "crmhub workflow enrol acme welcome 481516234211",
    "workflow unenrol": "crmhub workflow unenrol acme welcome 481516234211",
    "import": "crmhub import acme contacts people.csv --by email",
    "export": "crmhub export acme contacts people.csv",
    "erase": "crmhub erase acme ada@example.com --dry-run",
    "db upgrade": "crmhub db upgrade",
    "db backup": "crmhub db backup crmhub.backup",
    "db restore": "crmhub db restore crmhub.backup",
    "db settle": "crmhub db settle",
    "db reseal": "crmhub db reseal --check",
    "db index": "crmhub db index --trigram",
    "db distribute": "crmhub db distribute --shards 32",
    "db secure": "crmhub db secure --role crmhub_service",
    "doctor": "crmhub doctor --all",
    "fake": "crmhub fake hubspot",
}
"""By the words that follow `crmhub`."""


def add_examples(command: click.Command, *words: str) -> None:
    """Append its example to the help of a command and of all commands below it."""
    example = EXAMPLES.get(" ".join(words))
    if example:
        command.epilog = f"Example: {example}"
    for name, below in getattr(command, "commands", {}).items():
        add_examples(below, *words, name)
