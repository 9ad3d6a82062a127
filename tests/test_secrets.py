"""Ids, API keys, sealed columns and signatures."""

from __future__ import annotations

import base64
import io
import re

import pytest

from crmhub import secrets
from crmhub.secrets import EncryptionKey, SealBroken, Vault

OLD = EncryptionKey("old", b"o" * 32)
NEW = EncryptionKey("new", b"n" * 32)


def test_token_holds_the_bits_asked_for():
    assert len(secrets.token(128, "01")) == 128
    assert len(secrets.token(129, "0123456789abcdef")) == 33


def test_tokens_use_the_whole_alphabet_evenly():
    text = secrets.token(60_000, "abcd")
    shares = {letter: text.count(letter) / len(text) for letter in "abcd"}
    assert all(0.23 < share < 0.27 for share in shares.values()), shares


def test_new_api_keys_are_recognised_and_differ():
    keys = {secrets.new_api_key() for _ in range(200)}
    assert len(keys) == 200
    assert all(secrets.looks_like_api_key(key) for key in keys)
    assert all(re.fullmatch(r"crmhub_[0-9A-Za-z]{36}", key) for key in keys)


@pytest.mark.parametrize("text", ["s3cret", "s3cret\r\n", "\ufeffs3cret\r\n", " s3cret"])
def test_what_editors_put_around_a_secret_is_no_part_of_it(text):
    assert secrets.read_secret(io.StringIO(text)) == "s3cret"


def test_checksum_is_crc32_in_six_base62_digits():
    # The check value of CRC-32 is 0xCBF43926, and that of nothing is 0.
    assert secrets._checksum("123456789") == "3jZRME"
    assert secrets._checksum("") == "000000"


def test_one_mistyped_character_is_noticed_wherever_it_stands():
    key = secrets.new_api_key()
    for position in range(len(key)):
        other = "x" if key[position] != "x" else "y"
        assert not secrets.looks_like_api_key(key[:position] + other + key[position + 1 :])


@pytest.mark.parametrize(
    "wrap",
    ["{}\n", " {}", "{} ", "{}0", "x{}", "\x00{}"],
    ids=["newline", "space before", "space after", "longer", "prefixed", "nul"],
)
def test_what_surrounds_an_api_key_is_not_overlooked(wrap):
    assert not secrets.looks_like_api_key(wrap.format(secrets.new_api_key()))


@pytest.mark.parametrize("text", ["", "crmhub_", "ключ", "crmhub_" + "é" * 36, "١" * 43])
def test_other_text_is_no_api_key(text):
    assert not secrets.looks_like_api_key(text)


def test_digest_is_sha256():
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert secrets.digest("abc") == expected


def test_webhook_ids_survive_a_builder_that_changes_case():
    ids = {secrets.new_webhook_id() for _ in range(200)}
    assert len(ids) == 200
    assert all(re.fullmatch(r"[0-9a-z]{26}", one) for one in ids)


def test_secrets_hold_256_bits_and_need_no_escaping():
    assert re.fullmatch(r"[0-9A-Za-z]{43}", secrets.new_secret())


def test_same_compares_text_and_bytes_beyond_ascii():
    assert secrets.same("schlüssel", "schlüssel".encode())
    assert not secrets.same("schlüssel", "schlussel")
    assert not secrets.same("", "x")


def test_derived_keys_differ_by_purpose_and_by_secret():
    keys = {
        secrets.derive("one", "cursor"),
        secrets.derive("one", "session"),
        secrets.derive("two", "cursor"),
    }
    assert len(keys) == 3
    assert secrets.derive("one", "cursor") == secrets.derive(b"one", "cursor")
    assert {len(key) for key in keys} == {32}


def test_signature_is_short_and_depends_on_key_and_payload():
    signature = secrets.sign(b"key", b"payload")
    assert len(signature) == 16
    assert signature == secrets.sign(b"key", b"payload")
    assert signature != secrets.sign(b"key", b"payloae")
    assert signature != secrets.sign(b"kez", b"payload")


@pytest.mark.parametrize("plain", ["token", "", "пароль ☃", "x" * 70_000])
def test_what_was_sealed_opens(plain):
    vault = Vault([NEW])
    sealed = vault.seal(plain, account_id=7, column="credentials")
    assert re.fullmatch(r"v1\.new\.[0-9A-Za-z+/]+=*", sealed)
    assert vault.open(sealed, account_id=7, column="credentials") == plain


def test_bytes_are_sealed_as_utf8():
    vault = Vault([NEW])
    sealed = vault.seal("é".encode(), account_id=7, column="c")
    assert vault.open(sealed, account_id=7, column="c") == "é"
    with pytest.raises(UnicodeDecodeError):
        vault.seal(b"\xff", account_id=7, column="c")


def test_the_same_text_is_never_sealed_the_same_way():
    vault = Vault([NEW])
    assert len({vault.seal("a", account_id=7, column="c") for _ in range(50)}) == 50


@pytest.mark.parametrize(("account_id", "column"), [(8, "c"), (7, "d"), (77, "c")])
def test_a_sealed_value_opens_nowhere_else(account_id, column):
    vault = Vault([NEW])
    sealed = vault.seal("token", account_id=7, column="c")
    with pytest.raises(SealBroken, match="another account or column"):
        vault.open(sealed, account_id=account_id, column=column)


def test_a_changed_byte_breaks_the_seal_wherever_it_stands():
    vault = Vault([NEW])
    head, _, encoded = vault.seal("token", account_id=7, column="c").rpartition(".")
    blob = base64.b64decode(encoded)
    for position in range(len(blob)):
        changed = bytearray(blob)
        changed[position] ^= 1
        sealed = f"{head}.{base64.b64encode(changed).decode()}"
        with pytest.raises(SealBroken):
            vault.open(sealed, account_id=7, column="c")


@pytest.mark.parametrize(
    "sealed", ["", "token", "v1.new", "v1.new.", "v2.new.AAAA", "v1.new.!", "v1.new.AAAA", "v1..AA"]
)
def test_what_was_never_sealed_does_not_open(sealed):
    with pytest.raises(SealBroken, match=r"^c: "):
        Vault([NEW]).open(sealed, account_id=7, column="c")


def test_after_a_rotation_the_new_key_seals_and_both_open():
    before = Vault([OLD]).seal("token", account_id=7, column="c")
    rotated = Vault([NEW, OLD])
    assert rotated.open(before, account_id=7, column="c") == "token"
    assert rotated.seal("token", account_id=7, column="c").startswith("v1.new.")


def test_a_dropped_key_is_named():
    sealed = Vault([OLD]).seal("token", account_id=7, column="c")
    with pytest.raises(SealBroken, match=r"key 'old'.*Put that key back"):
        Vault([NEW]).open(sealed, account_id=7, column="c")


def test_another_key_under_the_same_id_does_not_open():
    sealed = Vault([OLD]).seal("token", account_id=7, column="c")
    with pytest.raises(SealBroken, match="another one than it was"):
        Vault([EncryptionKey("old", b"x" * 32)]).open(sealed, account_id=7, column="c")


def test_a_vault_without_keys_is_refused():
    with pytest.raises(ValueError, match="at least one key"):
        Vault([])


def test_a_fresh_encryption_key_can_be_read():
    [key] = secrets.parse_encryption_keys(secrets.new_encryption_key("k1"))
    assert key.id == "k1"
    assert len(key.key) == 32
    assert secrets.new_encryption_key("k1") != secrets.new_encryption_key("k1")


def test_keys_are_read_in_order_in_either_base64():
    standard, urlsafe = base64.b64encode(b"\xff" * 32), base64.urlsafe_b64encode(b"\xfb" * 32)
    keys = secrets.parse_encryption_keys(f"a:{standard.decode()} , b:{urlsafe.decode().strip('=')}")
    assert keys == (EncryptionKey("a", b"\xff" * 32), EncryptionKey("b", b"\xfb" * 32))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "key 1 has no id"),
        ("bm8gaWQgYXQgYWxs", "key 1 has no id"),
        (":bm8gaWQgYXQgYWxs", "key 1 has no id"),
        ("a b:bm8gaWQgYXQgYWxs", "key 1 has no id"),
        ("a:bm8gaWQgYXQgYWxs", "key a has 12 bytes; give 32"),
        ("a:bm8gaWQ!", "key a is not base64"),
        ("a:bm8gaWQgYX", "key a"),
        (f"a:{'A' * 43}=,", "key 2 has no id"),
        (f"a:{'A' * 43}=,a:{'B' * 42}A=", "key id a is given twice"),
    ],
)
def test_faulty_keys_are_refused_without_being_shown(text, said):
    with pytest.raises(ValueError, match=said) as caught:
        secrets.parse_encryption_keys(text)
    assert "bm8gaWQ" not in str(caught.value)
    assert "AAAA" not in str(caught.value)


def test_keys_do_not_appear_in_repr():
    assert repr(EncryptionKey("a", b"secret" + b"x" * 26)) == "EncryptionKey(id='a')"
