"""The console's pages for CSV files: the export of records, and imports from upload to result."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from typing import Any

import flask
from flask_babel import gettext, lazy_gettext

from crmhub.accounts.accounts import Account
from crmhub.api.http.authentication import hub
from crmhub.console.accounts import account_context
from crmhub.console.downloads import csv_download, csv_parts
from crmhub.console.list_filters import text
from crmhub.console.pages import add_page, done, errors_on, refused, set_faults
from crmhub.console.records import filter_of, filter_rows, kind_of
from crmhub.console.sessions import MAX_UPLOAD_BYTES, author, blueprint, needs
from crmhub.csv.columns import Choices, Column
from crmhub.csv.encodings import ENCODINGS
from crmhub.csv.exporting import Selection, export, export_notes
from crmhub.errors import BadRequest, HubError
from crmhub.operators.files import import_jobs, running_imports
from crmhub.operators.files.import_jobs import ImportJob, JobSettings
from crmhub.operators.files.running_imports import Preview
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import KINDS, Kind

DELIMITERS = (
    ("", lazy_gettext("Detect")),
    (",", lazy_gettext("Comma")),
    (";", lazy_gettext("Semicolon")),
    ("\t", lazy_gettext("Tab")),
    ("|", lazy_gettext("Bar |")),
)
DECIMALS = (
    ("", lazy_gettext("Detect")),
    (".", lazy_gettext("Point: 1,234.50")),
    (",", lazy_gettext("Comma: 1.234,50")),
)
DATES = (
    ("", lazy_gettext("Detect")),
    ("dmy", lazy_gettext("Day first: 31/12/2024")),
    ("mdy", lazy_gettext("Month first: 12/31/2024")),
)
SKIPPED = {
    "ignored": lazy_gettext("No property has this name."),
    "repeated": lazy_gettext("An earlier column holds this property."),
    "only HubSpot fills it in": lazy_gettext("Only HubSpot fills this in."),
    "the hub fills it in": lazy_gettext("The hub fills this in."),
}
_DELIMITER_WORDS = {
    ",": lazy_gettext("comma"),
    ";": lazy_gettext("semicolon"),
    "\t": lazy_gettext("tab"),
    "|": lazy_gettext("vertical bar"),
}
_NAMES = ("id", "email", "phone", "name", "domain", "dealname", "subject")
_NOTES = "notes"
_SKIP = ""
_TITLE = re.compile(r"title\.\d+")
# With more options on the page, properties are typed, with one list of suggestions for all.
_MOST_OPTIONS = 20_000
# An option of the command in a message that has a form field.
_OPTION = re.compile(r"--(encoding|delimiter|decimal|dates|timezone|by)\b")
# The options of the command in messages, and the fields of the form that replace them.
_FORM_WORDS = (
    (r" Name one with --column 'TITLE=NAME'.*?--ignore-unknown\)", " Choose one, or skip it"),
    (r"leave it out with --column '[^\0]*?='", "skip it"),
    (r"name (the|a) column (of .*?) with --column 'TITLE=NAME'", r"choose \1 column \2"),
    (r"(?:the character )?(?:between the cells )?with --delimiter", "the delimiter below"),
    (r"Name the right encoding with --encoding", "Choose the right encoding below"),
    (r" ?with --(?:encoding|decimal|dates)", " below"),
    (r"--decimal \. or --decimal ,", "choose the decimal separator below"),
    (r"--dates dmy or --dates mdy", "choose the order of dates below"),
    (r"--by updates", "the choice “Update” under Existing records updates"),
    (r"--by: ", "Existing records: "),
    (r"--timezone: ", "Time zone: "),
    (r"--link ", "Link of "),
)


def _overview(client_id: str) -> dict[str, Any]:
    shared = account_context(client_id)
    return {
        **shared,
        "jobs": import_jobs.listed(hub(), shared["account"]),
        "kinds": [(name, gettext(name).capitalize()) for name in KINDS],
        "kind": flask.request.values.get("kind", "contacts"),
        "delimiters": DELIMITERS[1:],
        "most_mib": MAX_UPLOAD_BYTES >> 20,
    }


add_page(
    "/accounts/<client_id>/imports", "imports", needs("data"), "account/imports.html", _overview
)


@blueprint.post("/accounts/<client_id>/imports")
@needs("change")
@errors_on("account/imports.html", _overview)
def imports_upload(client_id: str) -> flask.Response:
    account = hub().load_account(client_id)
    file = flask.request.files.get("file")
    if file is None or not file.filename:
        raise BadRequest("Choose a file.", field="file")
    kind = KINDS.get(flask.request.form.get("kind", ""))
    if kind is None:
        raise BadRequest(
            "Choose what the rows are: %(kinds)s.", kinds=", ".join(KINDS), field="kind"
        )
    with closing(file):
        job = import_jobs.upload(
            hub(), account, kind, file.stream, file_name=text(file.filename), by=author()
        )
    message = gettext("Uploaded. Nothing is imported yet.")
    return done(message, "console.imports_job", client_id=client_id, id=job.id)


@blueprint.post("/accounts/<client_id>/imports/<id>")
@needs("change")
def imports_start(client_id: str, id: str) -> flask.Response:
    account = hub().load_account(client_id)
    job = import_jobs.find(hub(), account, id)
    action = flask.request.form.get("action", "")
    try:
        if action in ("dry-run", "import"):
            running_imports.start(hub(), account, job, _settings(job), dry_run=action == "dry-run")
        else:
            import_jobs.save(hub(), account, id, _settings(job))
    except HubError as exc:
        context = _shown(client_id, id)
        exc.fields = tuple(_faults_of(exc.message, context.get("columns", ())).items())
        exc.message = _words(exc.message)
        return refused(exc, "account/import.html", **context)
    said = {
        "dry-run": gettext("The dry run has started."),
        "import": gettext("The import has started."),
    }
    message = said.get(action, gettext("The preview is up to date."))
    return done(message, "console.imports_job", client_id=client_id, id=id)


@blueprint.post("/accounts/<client_id>/imports/<id>/state")
@needs("change")
def imports_state(client_id: str, id: str) -> flask.Response:
    account = hub().load_account(client_id)
    action = flask.request.form.get("action", "")
    if action == "stop":
        import_jobs.stop(hub(), account, id)
        message = gettext("The import is stopped. Rows that were imported stay.")
    elif action == "continue":
        import_jobs.resume(hub(), account, id)
        message = gettext("The import continues.")
    else:
        import_jobs.reopen(hub(), account, id)
        message = gettext("Nothing is imported yet. Change the columns and options.")
    return done(message, "console.imports_job", client_id=client_id, id=id)


@blueprint.post("/accounts/<client_id>/imports/<id>/deleted")
@needs("change")
def imports_delete(client_id: str, id: str) -> flask.Response:
    import_jobs.delete(hub(), hub().load_account(client_id), id)
    message = gettext("The import and its file are deleted. Imported records stay.")
    return done(message, "console.imports", client_id=client_id)


@blueprint.get("/accounts/<client_id>/imports/<id>/refused.csv")
@needs("data")
def imports_refused(client_id: str, id: str) -> flask.Response:
    account = hub().load_account(client_id)
    job = import_jobs.find(hub(), account, id)
    name = f"{job.file_name.rpartition('.')[0]}.refused.csv"
    bind = partial(hub().database.for_account, account.id)
    return csv_download(bind, import_jobs.refused_rows(hub(), job), name)


def _shown(client_id: str, id: str) -> dict[str, Any]:
    shared = account_context(client_id)
    account: Account = shared["account"]
    job = import_jobs.find(hub(), account, id)
    shown = {**shared, "job": job, "message": _words(job.message)}
    if job.state != "draft":
        return shown
    settings = _settings(job)
    choices = settings.choices
    preview, fault = None, ""
    try:
        given = choices if choices.columns else replace(choices, ignore_unknown=True)
        preview = running_imports.preview(hub(), account, job, replace(settings, choices=given))
    except HubError as exc:
        fault = _words(exc.message)
        set_faults(_faults_of(exc.message, ()))
    catalogue = hub().records.catalogue(account, job.kind)
    return {
        **shown,
        "settings": settings,
        "choices": choices,
        "preview": preview,
        "columns": _columns(preview) if preview else [],
        "fault": fault,
        "problems": [
            (_words(where).removeprefix("column "), _words(what))
            for where, what in (preview.plan.problems if preview else ())
        ],
        "properties": [(prop.name, _label(prop.label, prop.name)) for prop in catalogue],
        "many": preview is not None and len(preview.plan.columns) * len(catalogue) > _MOST_OPTIONS,
        "by": _by_choices(catalogue),
        "targets": _targets(account, job.kind),
        "skipped": SKIPPED,
        "encodings": (
            ("", gettext("Detect")),
            *((name, gettext(label)) for name, label in ENCODINGS.items()),
        ),
        "delimiters": DELIMITERS,
        "delimiter_words": _DELIMITER_WORDS,
        "decimals": DECIMALS,
        "dates": DATES,
    }


add_page(
    "/accounts/<client_id>/imports/<id>",
    "imports_job",
    needs("data"),
    "account/import.html",
    _shown,
)


def _columns(preview: Preview) -> list[tuple[Column, Sequence[str]]]:
    """Return each column with its cells in the first rows."""
    rows = preview.rows
    return [
        (
            replace(column, fault=_words(column.fault)),
            [row[index] for row in rows if index < len(row)],
        )
        for index, column in enumerate(preview.plan.columns)
    ]


def _settings(job: ImportJob) -> JobSettings:
    """Return the settings in the submitted form, without one the saved ones."""
    form = {name: text(value) for name, value in flask.request.form.items()}
    if "encoding" not in form:
        return job.settings
    titles = {
        key.removeprefix("title."): value for key, value in form.items() if _TITLE.fullmatch(key)
    }
    columns, links = {}, {}
    for index, title in titles.items():
        # A browser sends each line break as CR and LF.
        title = title.replace("\r\n", "\n")
        if title:
            columns[title] = form.get(f"column.{index}", _SKIP)
            if form.get(f"link.{index}"):
                links[title] = form[f"link.{index}"]
    # Tabs are no text to strip.
    delimiter = flask.request.form.get("delimiter", "")
    choices = Choices(
        by=form.get("by", ""),
        columns=columns,
        links=links,
        clear="clear" in form and bool(form.get("by")),
        decimal=form.get("decimal", ""),
        dates=form.get("dates", ""),
        timezone=form.get("timezone", "").strip(),
    )
    return JobSettings(form["encoding"], delimiter[:1], "keep_going" in form, choices)


def _by_choices(catalogue: Catalogue) -> list[tuple[str, str]]:
    unique = [
        (prop.name, gettext("Update the one with the same %(property)s", property=prop.label))
        for prop in catalogue.unique
    ]
    return [
        ("", gettext("Create a new record for each row")),
        *unique,
        ("id", gettext("Update the one with the id")),
    ]


def _targets(account: Account, kind: Kind) -> list[tuple[str, str]]:
    """Return the records to which a column may link, as (target, label)."""
    targets = []
    for each in KINDS.values():
        catalogue = hub().records.catalogue(account, each)
        names = [name for name in _NAMES if name == "id" or catalogue.get(name)]
        names += [prop.name for prop in catalogue.unique if prop.name not in names]
        targets += [(f"{each.name}.{name}", _target_label(each, name)) for name in names]
    return targets


def _target_label(kind: Kind, name: str) -> str:
    record = gettext(kind.singular)
    return str(gettext("%(record)s by %(property)s", record=record, property=name))


def _label(label: str, name: str) -> str:
    return label if label.casefold() == name else f"{label} ({name})"


def _words(message: str) -> str:
    """Say a message of an import in the words of the form instead of the command's options."""
    for pattern, words in _FORM_WORDS:
        message = re.sub(pattern, words, message)
    return message


def _faults_of(message: str, columns: Sequence[tuple[Column, Sequence[str]]]) -> dict[str, str]:
    """Return the faults of columns by form field, or that of the option that `message` names."""
    faults = {f"column.{i}": column.fault for i, (column, _) in enumerate(columns) if column.fault}
    option = _OPTION.search(message)
    return faults or ({option[1]: _words(message)} if option else {})


# --- export --------------------------------------------------------------------------------------


@blueprint.get("/accounts/<client_id>/export")
@needs("data")
def imports_export(client_id: str) -> flask.Response:
    args = flask.request.args
    account, name = hub().load_account(client_id), args.get("kind", "contacts")
    delimiter = args.get("delimiter", ",")
    if delimiter not in dict(DELIMITERS[1:]):
        raise BadRequest("Choose comma, semicolon, tab or bar as the delimiter.")
    selection = Selection(
        tuple(map(filter_of, filter_rows())), labels="labels" in args, delimiter=delimiter
    )
    out = StringIO(newline="")
    out.write("\ufeff" * ("bom" in args))
    if name == _NOTES:
        steps = export_notes(hub().records, account, selection, out, by=author())
    else:
        steps = export(hub().records, account, kind_of(name), selection, out, by=author())
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    bind = partial(hub().database.for_account, account.id)
    return csv_download(bind, csv_parts(out, steps), f"{client_id}-{name}-{day}.csv")
