"""The language of the reader: of their profile, else of their browser, else English.

The texts stand in English in the templates and modules; `crmhub/translations` has the others.
"""

from __future__ import annotations

import flask
from babel.core import negotiate_locale
from flask_babel import Babel, pgettext

from crmhub.console.sessions import is_ours, signed_in
from crmhub.translatable import CATALOGUES
from crmhub.users.users import LANGUAGES

NAMES = {"en": "English", "es": "Español", "pt": "Português"}
"""What each of the languages calls itself."""


def register(app: flask.Flask) -> None:
    Babel(app, default_translation_directories=str(CATALOGUES), locale_selector=reader_language)
    # A text may have several lines in a template; it has one in a catalogue.
    app.jinja_env.policies["ext.i18n.trimmed"] = True


def reader_language() -> str:
    """Return the language of what is answered to this request, a key of NAMES.

    It is English outside the console: the API and its documents have one language.
    """
    if not (is_ours(flask.request.path) or flask.request.path == "/"):
        return "en"
    user = signed_in() if flask.g.get("signed_in") else None
    if user and user.language:
        return user.language
    wanted = flask.request.accept_languages.values()
    return negotiate_locale(wanted, LANGUAGES, sep="-") or "en"


def language_choices() -> tuple[tuple[str, str], ...]:
    """Return the languages that a user can choose, as pairs of value and label."""
    return (("", pgettext("language", "The browser's")), *NAMES.items())
