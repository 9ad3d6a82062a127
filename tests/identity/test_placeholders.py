"""Which values count as filled in: what builders send for nothing, and texts that look like it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from crmhub.identity.placeholders import (
    FORMS,
    filled_words,
    find_in_key,
    find_in_text,
    is_unfilled_id,
)
from crmhub.properties.addresses import is_junk_phone
from tests.identity.builders import BUILDERS

# Template languages of which no builder is known: they cost nothing.
NO_BUILDER = {
    "#{x}", "[[x]]", "<<x>>", "<%= x %>", "{% x %}", "{x y}", "{1}", "%x y%", "<x>", "#x#",
    "{=Any:x}",
}  # fmt: skip


def test_builders_and_forms_belong_together() -> None:
    known = {one.example for one in FORMS}
    assert len(known) == len(FORMS)
    written = {form for one in BUILDERS for form in one.forms}
    assert written == known - NO_BUILDER
    assert all(one.source for one in BUILDERS)
    assert [one.name.lower() for one in BUILDERS] == sorted(one.name.lower() for one in BUILDERS)


def test_a_form_is_found_where_it_counts() -> None:
    for form in FORMS:
        inside = f"Ada, {form.example} and so on"
        assert is_unfilled_id(form.example)
        assert bool(find_in_key(inside)) is (form.counts in ("text", "key"))
        assert bool(find_in_text(form.example)) is (form.counts != "id")
        assert bool(find_in_text(inside)) is (form.counts == "text")


def test_no_pattern_takes_long() -> None:
    """Each repeats a bounded number of times, and none what is itself repeated."""
    for form in FORMS:
        for most, inner in _repeats(form.pattern):
            assert most <= 200
            assert most == 1 or not list(_repeats_in(inner))


def _repeats(pattern: str) -> Iterator[tuple[int, Any]]:
    return _repeats_in(re._parser.parse(pattern))  # type: ignore[attr-defined]


def _repeats_in(parsed: Any) -> Iterator[tuple[int, Any]]:
    """Give each repetition of a parsed pattern: how often at most, and of what."""
    if isinstance(parsed, tuple | list | re._parser.SubPattern):  # type: ignore[attr-defined]
        if isinstance(parsed, tuple) and str(parsed[0]).endswith("_REPEAT"):
            yield int(parsed[1][1]), parsed[1][2]
        for each in parsed:
            yield from _repeats_in(each)


def test_a_pattern_that_could_take_long_is_seen() -> None:
    for pattern in ["a*", "(?:a{1,3})*b", "(?:(?:ab){1,9}|c)+", "[ab]{2,}"]:
        assert any(most > 200 for most, _ in _repeats(pattern))


def test_the_longest_text_is_read() -> None:
    for part in [
        "{{a}}", "%a%", "{", "%a", "}", "{a", "% ", "{{", "[[a", "<<a", "$a.", "##a", "*|a",
        "¿·@a", "%7B%7Ba", "<? $", "a ", "0", "+", "null ", "{ ", "$contact.a", "@contact.a",
        "<%=a", "{%a", "[name", "$name", "-$a", "-[a",
    ]:  # fmt: skip
        text = (part * 65_536)[:65_535] + "!"
        for read in (find_in_text, find_in_key, is_unfilled_id, filled_words, is_junk_phone):
            read(text)
        assert is_junk_phone(text), part


# --- texts ------------------------------------------------------------------------------------


def test_a_text_that_is_not_filled_in() -> None:
    for text in [
        # Alone.
        "{{city}}", " {{ contact.city }} ", "{city}", "{home city}", "{ city }", "{}", "{0}",
        "{1.city}", "{cidade}", "{имя}", "%city%", "%home city%", "${city}", "$contact.city",
        "$session.params.city", "#intent.city", "$profile_name$", "{{first}} {{last}}",
        "{{first}}{{last}}", "{first} {last}", "%first%%last%", "%first% %last%",
        # In a text.
        "Lives in {{city}}.", "Lives in {{ city | default: 'Rome' }}.", "{{{city}}}",
        "[[city]], Italy", "a <<Home City>> b", "It is ${user.city}!", "#{city} and @{city}",
        "see $contact.city now", "¿·@city·? is it", "Hi *|FNAME|*,", "Hi %%FirstName%%,",
        "{!Contact.City}, Italy", "{$botContext.city}, Italy", "by ##BOT_NAME##",
        "[showVar=city], Italy", "<? $city ?>, Italy", "https://x.org/?city=%7B%7Bcity%7D%7D",
        "Hi {name}!", "({name})", "{first}-{last}", "<%= user.city %>, Italy", "{% city %}, Italy",
        "{!$Record.City}, Italy", "@contact.city", "@(contact.city)",
        "{=Document:CITY}, Italy", "Hi %FIRSTNAME%, welcome", "id_%user%",
        # What programs print.
        "undefined", "null", "None", " NaN ", "[object Object]",
    ]:  # fmt: skip
        found = find_in_text(text)
        assert found, text
        assert found in text


def test_a_text_that_is_stored_as_it_is() -> None:
    for text in [
        "", "  ", "Rome", "0", "-", "N/A", "<b>bold</b>", "<br>", '<?xml version="1.0"?>',
        "I like {} and <3", "50% of x and 20% off", "50% or 60%", "100%", "a%b%", "5%off%",
        "a %b c% d", "%20%20", "%E4%BD%A0", "name=%C3%A4%20", '{"a": 1}', "{'a': 1}",
        '{"a":{"b":{}}}', "{a, b}", "{a: 1}", "{red;blue}", "a{2}", "a{b}",
        "\\textbf{word} and \\{x}", "if (a<b) {return c}",
        "{0F2504E0-4F89-11D3-9A0C-0305E82C3301}", "is {f2504e01-4F89-11D3-9A0C-0305E82C3301} it",
        "{", "}{", "{{city", "city}}", "[sic]", "[x]", "[[1,2],[3,4]]", "[[1,2]]", '[["a"]]',
        "a[b[c]]", "cat <<EOF", "x << y >> z", "vector<vector<int>>", "price $5.50",
        "$5 and $6.x", "$AAPL", "#sale", "## Heading ##", "~~old~~ *new*", "@ada",
        "@ada.lovelace", "user@contact.name", "Undefined", "NULL", "none", "nan",
        "Type {=SUM(A1:A3)} there", "{=A1:A3}", "undefined behaviour", "null and void",
        "write to @contact.center", "a <% b",
        "[object Object] was shown",
    ]:  # fmt: skip
        assert find_in_text(text) == ""


# --- ids, emails, names -------------------------------------------------------------------------


def test_an_id_that_many_people_would_share() -> None:
    for text in [
        "user-{{id}}", "chat-{id}", "chat {user id}", "user_%id%", "{}", "{0}", "@id", "@user id",
        "[id]", "<id>", "$id", "#context.id", "undefined", "UNDEFINED", "Null", "none", "nan",
        "[Object object]", " 0 ", "-", "N/A", "n/a", "null-null", "undefined_undefined",
        "messenger:undefined", "wa-null", "wa:None", "wa-@contact.uuid", "wa-[id]",
        "wa-<user id>", "wa-$user_id", "<%= chat.id %>", "chat [object Object]",
        "@(contact.uuid)", "@(if(contact.uuid, contact.uuid, 0))", "{=Document:ID}", "#user_id#",
        "{{contact.id", '{"id":null}', '{ "id": null }', "nil", "False", "n.a.", "NA", "#N/A",
        "#REF!",
        # Nothing that tells people apart, also with a messenger's words around it.
        "00", "0.0", "%", "_", "--", "...", "[]", '""', "'; --", "?", "@", "+", "\u200b", "\u3164",
        "whatsapp:", "whatsapp:+", "tel:", "https://wa.me/", "0@c.us", "null@c.us", "@c.us",
        "none@s.whatsapp.net", "messenger:0",
    ]:  # fmt: skip
        assert is_unfilled_id(text)


def test_an_id_that_is_one() -> None:
    for text in [
        "1", "-1", "0a", "ü", "是", "whatsapp:1", "#1", "user:0", "row:00", "😀", "chat-17",
        "null-island", "drnull",
        "telegram:@ada", "wa-$5", "none of your business", "undefinedness", "N/A-1",
        "5215512345678@c.us", "ada.null@x.org", "@ada:matrix.org", "#room:matrix.org",
        "19:meeting_x@thread.v2", "<abc@x.org>", "[1]", '{"id": 5}', '{"id":"4711","ref":null}',
        "{3F2504E0-4F89-11D3-9A0C-0305E82C3301}", "{f2504e01-4F89-11D3-9A0C-0305E82C3301}",
        "a%20b%20c", "%E4%BD%A0", "QWRh==",
    ]:  # fmt: skip
        assert not is_unfilled_id(text)


def test_an_email_that_is_not_filled_in() -> None:
    for text in ["{{email}}", "ada-{tag}@x.org", "null", "ada@{{domain}}", "%e%"]:
        assert find_in_key(text)


def test_an_email_that_is_left_to_other_checks() -> None:
    for text in ["ada@x.org", "a%b@x.org", "null@x.org", "", "NULL", "ada at home"]:
        assert find_in_key(text) == ""


def test_the_words_of_a_name_that_are_filled_in() -> None:
    for name, words in [
        ("Ada King Lovelace", ["Ada", "King", "Lovelace"]),
        ("Ada {{last name}}", ["Ada", ""]),
        ("{{first}} Smith", ["", "Smith"]),
        ("{first name} Smith", ["", "Smith"]),
        ("Ada %last name%", ["Ada", ""]),
        ("$contact.firstname Smith", ["", "Smith"]),
        ("Ada undefined", ["Ada", ""]),
        ("Ada [object Object]", ["Ada", ""]),
        ("None Smith", ["", "Smith"]),
        ("Jennifer Null", ["Jennifer", "Null"]),
        ("Nan Smith", ["Nan", "Smith"]),
        ("Ada {{{last}}}", ["Ada", ""]),
        ("Dr.{{first}} Smith", ["", "Smith"]),
        ("undefined undefined", ["", ""]),
        ("{{first}}{{last}}", [""]),
        ("<%= name %>", [""]),
        ("Ada @contact.lastname", ["Ada", ""]),
        ("[First Name] [Last Name]", ["", "", "", ""]),
        ("$firstname $lastname", ["", ""]),
        ("<name>", [""]),
        ("@(contact.name)", [""]),
        # Nothing of it shows.
        ("\u3164", [""]),
        ("Ada \u2800", ["Ada", ""]),
        ("[Ada]", ["[Ada]"]),
        ("Too $hort", ["Too", "$hort"]),
        ("Ada [First Lady]", ["Ada", "[First", "Lady]"]),
        ("Ada <3 {x", ["Ada", "<3", "{x"]),
        ("", []),
    ]:
        assert filled_words(name) == words


# --- phones -----------------------------------------------------------------------------------


def test_a_phone_that_is_no_possible_number() -> None:
    for text in [
        "",
        "0",
        "-",
        "+1",
        "112",
        "123456",
        "abc",
        "false",
        "0000000",
        "000-000-0000",
        "1111111111",
        "+1 111 111 1111",
        "+1 (000) 000-0000",
        "+49 000000000",
        "0049 000000000",
        "5511111111111",
        "٠٠٠٠٠٠٠٠",
        "1234567890123456",
        "120363025246125486@g.us",
        "9" * 400,
        "+999 123456789",
        "+1 202 555 010",
        # Anything beside one number.
        "030 12345678 Home",
        "Mobile: +12025550100",
        "12025550100@lid",
        "1.2025550100E+10",
        "+12025550100, +12025550101",
        "271828182845904",
    ]:
        assert is_junk_phone(text)


def test_a_phone_that_may_be_one() -> None:
    for text in [
        "+12025550100", "+1 (202) 555-0100", "001 202 555 0100", "12025550100", "+15551234567",
        "whatsapp:+12025550100", "tel:+49-30-123456", "5215512345678@c.us", "+5215512345678",
        "+525512345678", "+5531987654321", "+553187654321", "+390612345678", "+49 (0) 30 1234567",
        "＋12025550100", "٤٩١٥١١٢٣٤٥٦٧٨",
        # Without a country there may be one all the same.
        "555-1234", "(202) 555-0100", "0151 12345678", "030/1234567", "06 12 34 56 78",
        "1222222222", "12222222", "491777777777", "+1 202 555 0100 ext. 5",
        "+1 202 555 0100 x512345",
    ]:  # fmt: skip
        assert not is_junk_phone(text)
