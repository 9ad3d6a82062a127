"""Send an alert by email, with SMTP over a guarded connection that has one deadline."""

from __future__ import annotations

import smtplib
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate, make_msgid

from crmhub.egress import Egress, Refused, tls_context
from crmhub.events.sending import Attempt, printable
from crmhub.operators.alerts.alert_texts import Text
from crmhub.settings import Settings

SECONDS = 15.0
"""How long a message may take: much less than the lease of its alerts."""
_PORTS: Mapping[str, int] = {"starttls": 587, "tls": 465, "none": 25}


class _Connection(smtplib.SMTP):
    def __init__(self, egress: Egress, settings: Settings, host: str, port: int) -> None:
        self._egress, self._tls = egress, settings.smtp_tls
        # smtplib's own name for this machine would be asked for by DNS, without a deadline.
        domain = (settings.alert_email_from or "").rpartition("@")[2]
        name = domain if domain.isascii() else "localhost"
        super().__init__(host, port, local_hostname=name, timeout=SECONDS)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        secure = self._tls != "none"
        sock = self._egress.open_socket(host, port, secure=secure, seconds=timeout)
        if self._tls != "tls":
            return sock
        try:
            return tls_context().wrap_socket(sock, server_hostname=host)
        except BaseException:
            sock.close()
            raise


def send_email(egress: Egress, settings: Settings, text: Text) -> Attempt:
    """Send `text` as the settings say, and return what came of it in plain words."""
    host = settings.smtp_host or ""
    port = settings.smtp_port or _PORTS[settings.smtp_tls]
    place = f"The mail server {host}:{port}"
    try:
        connection = _Connection(egress, settings, host, port)
        try:
            refused = _send(connection, settings, text)
        finally:
            connection.close()
    except Refused:
        public = f"{host} is a public address, which gets no email without TLS"
        return Attempt(None, f"{public}; set CRMHUB_SMTP_TLS to starttls or tls.")
    except socket.gaierror:
        return Attempt(None, f"There is no host {host}. Check CRMHUB_SMTP_HOST.")
    except ssl.SSLCertVerificationError as exc:
        return Attempt(None, f"The certificate of {host} is not valid: {exc.verify_message}.")
    except ssl.SSLError:
        return Attempt(None, f"{place} speaks no TLS. Check CRMHUB_SMTP_TLS and CRMHUB_SMTP_PORT.")
    except smtplib.SMTPAuthenticationError as exc:
        said = _said(exc.smtp_code, exc.smtp_error)
        return Attempt(None, f"{place} refuses the user or the password: {said}")
    except smtplib.SMTPNotSupportedError as exc:
        return Attempt(None, printable(f"{place} cannot do this: {str(exc).rstrip('.')}."))
    except smtplib.SMTPRecipientsRefused as exc:
        return Attempt(None, f"{place} refuses every recipient: {_refusals(exc.recipients)}")
    except smtplib.SMTPSenderRefused as exc:
        said = _said(exc.smtp_code, exc.smtp_error)
        return Attempt(None, f"{place} refuses the sender {settings.alert_email_from}: {said}")
    except smtplib.SMTPResponseException as exc:
        said = _said(exc.smtp_code, exc.smtp_error)
        return Attempt(None, f"{place} refuses the message: {said}")
    except UnicodeError:
        # smtplib signs in with ASCII alone.
        return Attempt(None, "CRMHUB_SMTP_USER or CRMHUB_SMTP_PASSWORD has letters beyond ASCII.")
    except (OSError, smtplib.SMTPException) as exc:
        # smtplib turns some timeouts into its own errors.
        if isinstance(exc, TimeoutError) or isinstance(exc.__context__, TimeoutError):
            return Attempt(None, f"{place} did not answer within {SECONDS:.0f} s.")
        return Attempt(None, f"{place} does not answer, or the connection broke.")
    note = f"Accepted, but not for all: {_refusals(refused)}" if refused else ""
    return Attempt(None, note=note)


def _send(
    connection: _Connection, settings: Settings, text: Text
) -> Mapping[str, tuple[int, bytes]]:
    """Return the refused recipients; at least one was accepted."""
    if settings.smtp_tls == "starttls":
        connection.starttls(context=tls_context())
    if settings.smtp_user and settings.smtp_password:
        connection.login(settings.smtp_user, settings.smtp_password)
    refused = connection.send_message(_message(settings, text))
    # The message is accepted already; an error now must not send it again.
    with suppress(OSError, smtplib.SMTPException):
        connection.quit()
    return refused


def _message(settings: Settings, text: Text) -> EmailMessage:
    sender = settings.alert_email_from or ""
    message = EmailMessage(policy=SMTP)
    message["Subject"] = f"[crmhub] {text.title}"
    message["From"] = sender
    message["To"] = ", ".join(settings.alert_email_to)
    message["Date"] = formatdate()
    message["Message-ID"] = make_msgid(domain=sender.rpartition("@")[2])
    # So that no holiday answer comes back.
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(f"{text.body}\n")
    return message


def _refusals(recipients: Mapping[str, tuple[int, bytes]]) -> str:
    return " ".join(f"{name}: {_said(*answer)}" for name, answer in recipients.items())


def _said(code: int, answer: bytes | str) -> str:
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    words = printable(" ".join(text.split()))
    return f"{code} {words}".rstrip(". ") + "."
