"""What an operator sets: precedence, every fault at once, nothing secret shown."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from ipaddress import ip_network
from pathlib import Path

import pytest

from crmhub.accounts.plans import BUILT_IN, load_plans
from crmhub.secrets import EncryptionKey
from crmhub.settings import Settings, SettingsError

CONFIG = Path(__file__).parents[1] / "config"
SECRET = "s" * 32
KEYS = "k1:" + "A" * 43 + "="
PRODUCTION = {
    "CRMHUB_ENV": "production",
    "CRMHUB_SECRET_KEY": SECRET,
    "CRMHUB_ENCRYPTION_KEYS": KEYS,
}


def write_config(root: Path, text: str) -> Path:
    path = root / "config" / "crmhub.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def problems(environ: dict[str, str], root: Path) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        Settings.load(environ, root)
    return caught.value.problems


def only_problem(environ: dict[str, str], root: Path) -> str:
    [problem] = problems(environ, root)
    return problem


# Where a value comes from


def test_environment_wins_over_file_and_file_over_default(tmp_path):
    config = write_config(tmp_path, "port = 1000\nthreads = 5")
    settings = Settings.load({"CRMHUB_PORT": "2000"}, tmp_path)
    assert (settings.port, settings.threads, settings.workers) == (2000, 5, 2)
    assert settings.config == config


def test_a_right_value_in_the_environment_hides_a_wrong_one_in_the_file(tmp_path):
    write_config(tmp_path, "port = 'x'")
    assert Settings.load({"CRMHUB_PORT": "2000"}, tmp_path).port == 2000


def test_the_process_environment_and_directory_are_the_defaults(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("CRMHUB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CRMHUB_PORT", "2000")
    monkeypatch.chdir(tmp_path)
    settings = Settings.load()
    assert (settings.port, settings.root) == (2000, tmp_path)


def test_an_empty_value_counts_as_not_given(tmp_path):
    write_config(tmp_path, 'redis_url = ""\nhost = "127.0.0.2"\nport = 2000')
    environ = {"CRMHUB_HOST": "", "CRMHUB_PORT": "  ", "CRMHUB_CONFIG": ""}
    settings = Settings.load(environ, tmp_path)
    assert (settings.redis_url, settings.host, settings.port) == (None, "127.0.0.2", 2000)


def test_config_may_lie_elsewhere(tmp_path):
    (tmp_path / "other.toml").write_text("port = 2000")
    write_config(tmp_path, "port = 1000")
    assert Settings.load({"CRMHUB_CONFIG": "other.toml"}, tmp_path).port == 2000


def test_plans_are_found_in_their_usual_place_or_where_named(tmp_path):
    write_config(tmp_path, "")
    usual, other = tmp_path / "config" / "plans.toml", tmp_path / "other.toml"
    usual.touch()
    other.touch()
    assert Settings.load({}, tmp_path).plans == usual
    assert Settings.load({"CRMHUB_PLANS": "other.toml"}, tmp_path).plans == other
    assert Settings.load({"CRMHUB_PLANS": str(other)}, tmp_path).plans == other


def test_a_named_file_must_exist(tmp_path):
    for name in ("CRMHUB_CONFIG", "CRMHUB_PLANS"):
        assert only_problem({name: "none.toml"}, tmp_path) == (
            f"{name} (environment): there is no file {tmp_path}/none.toml; name one that exists."
        )


# The shipped files


def test_the_shipped_config_names_every_setting_with_its_default(tmp_path):
    shipped = (CONFIG / "crmhub.toml").read_text(encoding="utf-8")
    every_line = re.sub(r"(?m)^# (?=\w+ = )", "", shipped)
    assert every_line.count(" = ") == shipped.count(" = ")
    named = re.findall(r"(?m)^(\w+) = ", every_line)
    settings = [one.name for one in fields(Settings) if "parser" in one.metadata]
    assert named == settings

    write_config(tmp_path, "")
    (tmp_path / "config" / "plans.toml").touch()
    by_default = Settings.load({}, tmp_path)
    write_config(tmp_path, every_line)
    assert Settings.load({}, tmp_path) == by_default


def test_the_shipped_config_changes_nothing_as_it_is(tmp_path):
    before = Settings.load({}, tmp_path)
    config = write_config(tmp_path, (CONFIG / "crmhub.toml").read_text(encoding="utf-8"))
    after = Settings.load({}, tmp_path)
    assert after.config == config
    assert [getattr(after, one.name) for one in fields(after) if one.name != "config"] == [
        getattr(before, one.name) for one in fields(before) if one.name != "config"
    ]


def test_the_shipped_plans_are_the_built_in_ones():
    assert load_plans(CONFIG / "plans.toml") == BUILT_IN


# Casting and checking


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("postgres://u:p@h/d", "postgresql+psycopg://u:p@h/d"),
        (
            "postgresql://u:p@h:5433/d?sslmode=require",
            "postgresql+psycopg://u:p@h:5433/d?sslmode=require",
        ),
        (
            "postgresql://u:100%@h/d?options=-c%20search_path%3Dx",
            "postgresql+psycopg://u:100%@h/d?options=-c%20search_path%3Dx",
        ),
        ("postgresql+psycopg://[::1]:5432/d", "postgresql+psycopg://[::1]:5432/d"),
        ("postgresql:///d?host=/run/postgresql", "postgresql+psycopg:///d?host=/run/postgresql"),
        ("postgresql://u:p%40%23%2F@h/d", "postgresql+psycopg://u:p%40%23%2F@h/d"),
        ("sqlite:///crmhub.db", "sqlite:///{root}/crmhub.db"),
        ("sqlite:///var/other.db", "sqlite:///{root}/var/other.db"),
        ("sqlite:////tmp/crmhub.db", "sqlite:////tmp/crmhub.db"),
    ],
)
def test_database_urls_are_brought_into_one_form(tmp_path, given, url):
    settings = Settings.load({"CRMHUB_DATABASE_URL": given}, tmp_path)
    assert settings.database_url == url.format(root=tmp_path)


def test_the_public_address_has_no_slash_at_its_end(tmp_path):
    settings = Settings.load({"CRMHUB_PUBLIC_URL": "https://hub.example.com:8443/"}, tmp_path)
    assert settings.public_url == "https://hub.example.com:8443"


@pytest.mark.parametrize(
    "given", ["hub.example.com", "ftp://h", "https://", "https://h/x", "https://h?x", "https://u@h"]
)
def test_what_is_no_public_address_is_refused(tmp_path, given):
    fault = only_problem({"CRMHUB_PUBLIC_URL": given}, tmp_path)
    assert "give https://host, without a path" in fault or "percent-encoded" in fault


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("crmhub.db", "is not the address of a database"),
        ("mysql://u:hunter2@h/d", "is not the address of a database"),
        ("postgresql+psycopg2://u:hunter2@h/d", "is not the address of a database"),
        ("sqlite://", "in memory"),
        ("sqlite:///", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("postgresql://u:hunter2#@h/d", "percent-encoded"),
        ("postgresql://u:hunter2/@h/d", "percent-encoded"),
        ("postgresql://u:hunter2@@h/d", "percent-encoded"),
        ("postgresql://u:12?hunter2@h/d", "percent-encoded"),
        ("postgresql://u:[hunter2@h/d", "percent-encoded"),
        ("postgresql://u:hunter2@h:port/d", "the port as a number"),
        ("postgresql://u:hunter2@h/d?foo=bar", "behind the ?"),
        ("postgresql://u:hunter2@/d?host=h&port=x", "behind the ?"),
        ("sqlite:///crmhub.db?timeout=soon", "behind the ?"),
    ],
)
def test_faulty_database_urls_are_refused_without_the_password(tmp_path, given, said):
    problem = only_problem({"CRMHUB_DATABASE_URL": given}, tmp_path)
    assert problem.startswith("CRMHUB_DATABASE_URL (environment): ")
    assert said in problem
    assert "hunter2" not in problem


def test_redis_urls(tmp_path):
    for url in ("redis://h", "rediss://:p@h:6380/1", "redis://[::1]:6379/0", "unix:///run/r.sock"):
        assert Settings.load({"CRMHUB_REDIS_URL": url}, tmp_path).redis_url == url


def test_a_sqlite_file_needs_its_directory(tmp_path):
    problem = only_problem({"CRMHUB_DATABASE_URL": "sqlite:///data/x.db"}, tmp_path)
    assert f"there is no directory {tmp_path}/data" in problem


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("h:6379", "is not the address of a Redis"),
        ("http://:hunter2@h", "is not the address of a Redis"),
        ("redis://", "names no host"),
        ("redis://:hunter2@/0", "names no host"),
        ("redis://:hunter2@h:x/0", "the port as a number"),
        ("unix://hunter2", "names no socket"),
        ("redis://:hunter2@h?ssl_cert_reqs=none", "rediss:// for those of TLS"),
        ("rediss://:hunter2@h?ssl_cert_reqs=perhaps", "behind the ?"),
        ("redis://:hunter2@h?socket_timeout=abc", "behind the ?"),
    ],
)
def test_faulty_redis_urls_are_refused_without_the_password(tmp_path, url, said):
    problem = only_problem({"CRMHUB_REDIS_URL": url}, tmp_path)
    assert said in problem
    assert "hunter2" not in problem


@pytest.mark.parametrize("name", ["egress_allow", "trusted_proxies"])
def test_networks_from_environment_and_file(tmp_path, name):
    networks = (ip_network("127.0.0.0/8"), ip_network("::1"), ip_network("10.1.2.3/32"))
    environ = {f"CRMHUB_{name.upper()}": "127.0.0.0/8, ::1 ,10.1.2.3"}
    assert getattr(Settings.load(environ, tmp_path), name) == networks
    write_config(tmp_path, f'{name} = ["127.0.0.0/8", "::1", "10.1.2.3"]')
    assert getattr(Settings.load({}, tmp_path), name) == networks


def test_every_faulty_network_is_named_with_what_would_be_right(tmp_path):
    problem = only_problem({"CRMHUB_EGRESS_ALLOW": "127.0.0.1/8, ::1, localhost"}, tmp_path)
    assert problem == (
        "CRMHUB_EGRESS_ALLOW (environment): '127.0.0.1/8' is not a network; "
        "its network is 127.0.0.0/8, and 'localhost' is not a network; "
        "give an address or a network, such as 10.0.0.1 or 10.0.0.0/8."
    )


def test_ports_that_are_none(tmp_path):
    for value in ("0", "65536", "-1", "8080.0", "8_0", "８０８０", "x", "9" * 5000):
        problem = only_problem({"CRMHUB_PORT": value}, tmp_path)
        assert problem.endswith("is not a whole number from 1 to 65535.")
        assert len(problem) < 200
    for line in ("port = true", "port = 80.0", "port = [80]", "port = 0"):
        config = write_config(tmp_path, line)
        assert only_problem({}, tmp_path).startswith(f"port ({config}): ")


def test_numbers_in_the_file_may_stand_in_quotes(tmp_path):
    write_config(tmp_path, 'port = "2000"')
    assert Settings.load({}, tmp_path).port == 2000


def test_hosts(tmp_path):
    for host in ("0.0.0.0", "::", "::1", "localhost", "hub.example.org"):
        assert Settings.load({"CRMHUB_HOST": host}, tmp_path).host == host
    for host in ("localhost:80", "http://localhost", "two words", "h/p"):
        assert "is not a host" in only_problem({"CRMHUB_HOST": host}, tmp_path)


def test_words_are_taken_in_any_case(tmp_path):
    environ = {"CRMHUB_LOG_LEVEL": "WARNING", "CRMHUB_ENV": "Development"}
    settings = Settings.load(environ, tmp_path)
    assert (settings.log_level, settings.env) == ("warning", "development")


def test_another_word_is_refused_with_those_allowed(tmp_path):
    assert only_problem({"CRMHUB_LOG_LEVEL": "loud"}, tmp_path) == (
        "CRMHUB_LOG_LEVEL (environment): 'loud' is not one of debug, info, warning, error."
    )


# Faults, all at once


def test_every_fault_is_told_at_once(tmp_path):
    config = write_config(tmp_path, "threads = 0\nlog_level = 5\nprot = 1\n[table]\n")
    found = problems(
        {"CRMHUB_PORT": "x", "CRMHUB_HOSTT": "h", "CRMHUB_ENV": "production"}, tmp_path
    )
    assert [problem.partition(": ")[0] for problem in found] == [
        "CRMHUB_HOSTT (environment)",
        f"prot ({config})",
        f"table ({config})",
        "CRMHUB_PORT (environment)",
        f"threads ({config})",
        f"log_level ({config})",
        "CRMHUB_SECRET_KEY",
        "CRMHUB_ENCRYPTION_KEYS",
    ]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("CRMHUB_DATABASEURL", "did you mean CRMHUB_DATABASE_URL?"),
        ("CRMHUB_CONFIGS", "did you mean CRMHUB_CONFIG?"),
        ("CRMHUB_port", "did you mean CRMHUB_PORT?"),
        ("CRMHUB_QQ", "remove it."),
    ],
)
def test_unknown_variables_are_refused_with_the_nearest_name(tmp_path, name, hint):
    assert only_problem({name: "x"}, tmp_path) == (
        f"{name} (environment): there is no such setting; {hint}"
    )


def test_variables_of_others_and_of_the_tests_are_left_alone(tmp_path):
    environ = {"PORT": "x", "CRMHUBX": "x", "CRMHUB_TEST_REQUIRE": "postgresql"}
    assert Settings.load(environ, tmp_path).port == 8080


def test_unknown_names_in_the_file_are_refused(tmp_path):
    config = write_config(tmp_path, 'databse_url = "x"\nconfig = "x"')
    assert problems({}, tmp_path) == [
        f"config ({config}): there is no such setting; it is given as CRMHUB_CONFIG.",
        f"databse_url ({config}): there is no such setting; did you mean database_url?",
    ]


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    config = write_config(tmp_path, "")
    config.write_bytes(b"\xef\xbb\xbfport = 8090\n")
    assert Settings.load({}, tmp_path).port == 8090


@pytest.mark.parametrize(
    "content", [b"port = ", b"port = 1\nport = 2", b'host = "\xff"', b"port = " + b"[" * 2000]
)
def test_a_file_that_is_no_toml_is_named(tmp_path, content):
    config = write_config(tmp_path, "")
    config.write_bytes(content)
    assert only_problem({}, tmp_path).startswith(f"{config}: cannot be read as TOML in UTF-8: ")


# Secrets


def test_production_needs_its_secrets_and_makes_none(tmp_path):
    found = problems({"CRMHUB_ENV": "production"}, tmp_path)
    assert [problem.partition(":")[0] for problem in found] == [
        "CRMHUB_SECRET_KEY",
        "CRMHUB_ENCRYPTION_KEYS",
    ]
    assert "at least 32 random characters" in found[0]
    assert "openssl rand -base64 32" in found[1]
    assert not list((tmp_path / "var").iterdir())


def test_secrets_may_stand_in_the_file(tmp_path):
    write_config(tmp_path, f'secret_key = "{SECRET}"\nencryption_keys = ["{KEYS}"]')
    settings = Settings.load({"CRMHUB_ENV": "production"}, tmp_path)
    assert settings.secret_key == SECRET
    assert settings.encryption_keys == (EncryptionKey("k1", bytes(32)),)


def test_two_installations_have_different_secrets(tmp_path):
    one, two = Settings.load({}, tmp_path / "one"), Settings.load({}, tmp_path / "two")
    assert one.secret_key != two.secret_key
    assert one.encryption_keys != two.encryption_keys


def test_production_says_where_the_keys_of_development_are(tmp_path):
    Settings.load({}, tmp_path)
    found = problems({"CRMHUB_ENV": "production"}, tmp_path)
    assert f"What development used is in {tmp_path}/var/encryption_keys." in found[1]


def test_development_keeps_the_secrets_it_made(tmp_path):
    first, second = Settings.load({}, tmp_path), Settings.load({}, tmp_path)
    assert first == second
    assert len(first.secret_key) >= 32
    assert len(first.encryption_keys[0].key) == 32


def test_kept_secrets_are_for_their_owner_alone(tmp_path):
    mask = os.umask(0)
    try:
        Settings.load({}, tmp_path)
    finally:
        os.umask(mask)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "var").iterdir()}
    assert modes == {"secret_key": 0o600, "encryption_keys": 0o600}
    assert stat.S_IMODE((tmp_path / "var").stat().st_mode) == 0o700


def test_given_secrets_are_not_kept(tmp_path):
    Settings.load({**PRODUCTION, "CRMHUB_ENV": "development"}, tmp_path)
    assert not list((tmp_path / "var").iterdir())


def test_processes_that_start_at_once_share_their_secrets(tmp_path):
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from crmhub.settings import Settings\n"
        "sys.stdin.readline()\n"
        "s = Settings.load({}, Path(sys.argv[1]))\n"
        "print(s.secret_key, s.encryption_keys[0].key.hex())\n"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    outputs = {process.communicate()[0] for process in started}
    assert {process.returncode for process in started} == {0}
    assert len(outputs) == 1
    assert sorted(path.name for path in (tmp_path / "var").iterdir()) == [
        "encryption_keys",
        "secret_key",
    ]


@pytest.mark.parametrize("content", ["", "short", "\udcff"])
def test_a_spoilt_kept_secret_is_named(tmp_path, content):
    Settings.load({}, tmp_path)
    path = tmp_path / "var" / "secret_key"
    path.write_text(content, encoding="utf-8", errors="surrogateescape")
    problem = only_problem({}, tmp_path)
    assert problem.startswith(f"secret_key ({path}): ")
    assert problem.endswith("mend the file, or give CRMHUB_SECRET_KEY.")


def test_a_directory_that_cannot_be_made_is_a_fault(tmp_path):
    (tmp_path / "var").write_text("in the way")
    # Once, and nothing of the files that would stand in it.
    assert only_problem({}, tmp_path) == (
        f"{tmp_path}/var: cannot be made: File exists; start where crmhub may write."
    )


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CRMHUB_CONFIG", "{}/crmhub.toml"),
        ("CRMHUB_PLANS", "{}/plans.toml"),
        ("CRMHUB_DATABASE_URL", "sqlite:///{}/crmhub.db"),
    ],
)
def test_a_path_that_cannot_be_reached_is_a_fault(tmp_path, variable, value):
    # A name that is too long is beyond the reach of root, too, whom no mode of a file stops.
    problem = only_problem({variable: value.format("d" * 300 + "/sub")}, tmp_path)
    assert problem.startswith(f"{variable} (environment): {tmp_path}/ddd")
    assert problem.endswith(
        " cannot be looked for: File name too long; let this user reach it, or start elsewhere."
    )


def test_files_that_cannot_be_looked_for_are_not_left_out(tmp_path):
    (tmp_path / "config").symlink_to("d" * 300)
    (tmp_path / "var").symlink_to("d" * 300)
    given = {**PRODUCTION, "CRMHUB_DATABASE_URL": f"sqlite:///{tmp_path}/crmhub.db"}
    assert [problem.partition(" cannot")[0] for problem in problems(given, tmp_path)] == [
        f"{tmp_path}/config/crmhub.toml",
        f"{tmp_path}/config/plans.toml",
    ]
    [*_, secret_key, encryption_keys] = problems({"CRMHUB_ENV": "production"}, tmp_path)
    assert secret_key.startswith("CRMHUB_SECRET_KEY: required in production and not given")
    assert encryption_keys.startswith("CRMHUB_ENCRYPTION_KEYS: required in production")


def test_a_home_that_is_not_known_is_a_fault(tmp_path):
    assert only_problem({"CRMHUB_PLANS": "~nobody-known/plans.toml"}, tmp_path) == (
        f"CRMHUB_PLANS (environment): there is no file {tmp_path}/~nobody-known/plans.toml;"
        " name one that exists."
    )


def test_a_directory_that_is_gone_is_a_fault(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(SettingsError, match="started in is gone; start it in another one"):
        Settings.load({})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("secret_key", "hunter2"),
        ("encryption_keys", "hunter2"),
        ("encryption_keys", "k1:hunter2"),
        ("encryption_keys", f"{KEYS},{KEYS}"),
    ],
)
def test_faulty_secrets_are_refused_without_being_shown(tmp_path, name, value):
    problem = only_problem({f"CRMHUB_{name.upper()}": value}, tmp_path)
    assert problem.startswith(f"CRMHUB_{name.upper()} (environment): ")
    assert "hunter2" not in problem
    assert KEYS not in problem


def test_a_secret_of_the_wrong_type_is_not_shown(tmp_path):
    write_config(tmp_path, f"secret_key = {'7' * 40}\nencryption_keys = [7777777]")
    assert len(problems({}, tmp_path)) == 2
    assert not [problem for problem in problems({}, tmp_path) if "777" in problem]


def test_repr_shows_no_secret(tmp_path):
    environ = {
        **PRODUCTION,
        "CRMHUB_DATABASE_URL": "postgresql://u:hunter2@h/d",
        "CRMHUB_REDIS_URL": "redis://:hunter2@h/0",
    }
    shown = repr(Settings.load(environ, tmp_path))
    assert "env='production'" in shown
    assert not [secret for secret in ("hunter2", SECRET, KEYS[3:]) if secret in shown]


def test_settings_cannot_be_changed(tmp_path):
    settings = Settings.load({}, tmp_path)
    with pytest.raises(FrozenInstanceError):
        settings.port = 1  # type: ignore[misc]
