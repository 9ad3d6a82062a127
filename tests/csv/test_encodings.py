"""The encoding of a CSV file: found where it is certain, asked otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from crmhub.csv.encodings import ENCODINGS, find_encoding
from crmhub.csv.spreadsheets import Sheet
from crmhub.errors import BadRequest

WESTERN = {
    "German": "Müller Jürgen Schröder Weiß Groß Größe Äußerst Öztürk Özdemir Übel Bäcker Grüße"
    " KÖHLER JÄGER",
    "French": "Besançon François Hélène Lefèvre Rivière Geneviève Benoît Noël Loïc Anaïs Chloé"
    " Châtelain sœur Gaëlle Jérôme Côte Adèle Août",
    "Spanish": "García Muñoz Núñez Íñigo Peña Ángel Óscar Úrsula José Martínez Díaz Ibáñez PEÑA"
    " Agüero Raúl",
    "Portuguese": "João Sebastião Simões Conceição Gonçalves Guimarães Antônio Luís Lourenço",
    "Dutch": "Daniël België Zoë Renée Noëlle André",
    "Nordic": "Jørgen Sørensen Ødegård Åse Håkan Björk Ångström Sjöberg Mäkinen Hämäläinen Määttä",
}
FOREIGN = {
    "cp1250": "Paweł Łukasz Ondřej Jiří Dvořák Kateřina Němec Čapek Růžička Šťastný Petrović"
    " Ćosić Đorđe Kowalczyński Zięba Stępień Dębski Śliwa Żak Erdős Szőke Fűzi Băsescu"
    " Ştefan Vaněk Kučera Žďár",
    "cp1251": "Иванов Ольга Ющенко Ґалаґан Љубиша Ж Ян",
    "cp1253": "Γιώργος Παπαδόπουλος Ελένη Άννα",
    "cp1254": "Şükrü Çağlar Yıldız Işık Doğan Erdoğan Uğur Şahin Kılıç İnönü Tuğba",
    "cp1255": "כהן לוי שרה",
    "cp1256": "محمد فاطمة علي",
    "cp1257": "Kęstutis Žemaitis Šarūnas Agnė Petrauskienė Jānis Kārlis Bērziņš Līga Rūta"
    " Pēteris Ķirsis Čepaitis",
    "cp874": "สมชาย กมล",
    "koi8-r": "Иванов Ольга Ян",
    "mac_roman": "García Díaz Luís María José Müller Jørgen François Muñoz João Ève Ångström"
    " Simões Weiß Ñuñoa",
    "mac_latin2": "Łukasz Kovács Novotný",
    "cp437": "José Müller François Muñoz García Weiß Straße Julián Città Señor Ñuñoa",
    "cp850": "José Müller Muñoz García MARÍA MARTÍNEZ Simões João Weiß Kißling Ève Íris Úrsula"
    " MICHÈLE Julián Città",
    "cp852": "Dušan Košar Paweł Jiří Soňa Kamiński Novotný",
    "shift_jis": "田中 東京 山 本 西 鈴木 加藤 大谷 ﾀﾅｶ タナカ",
    "euc_jp": "田中 東京 山",
    "big5": "陳大文 李小明 台北 嚴 林 王 張 吳",
    "gb18030": "王伟 李娜 北京 张 間 閘",
    "euc_kr": "김철수 이영희 서울 이 전 조 최 박",
    "iso2022_jp": "田中 東京",
    "iso8859-2": "Šimon Łukasz Žižka Dvořák Ľubomír Ťapák",
}  # fmt: skip


def _read(tmp_path: Path, content: bytes, **options: str) -> list[str]:
    path = tmp_path / "people.csv"
    path.write_bytes(content)
    sheet = Sheet(path, **options)
    return [row.cells[1] for row in sheet.read(sheet.start)]


def _file(names: list[str], encoding: str) -> bytes:
    return "".join(["email,name\n", *(f"a@b.co,{name}\n" for name in names)]).encode(encoding)


def _reading(tmp_path: Path, content: bytes) -> list[str] | str:
    """Return what a file is read as, or the message that refuses it."""
    try:
        return _read(tmp_path, content)
    except BadRequest as exc:
        return exc.message


@pytest.mark.parametrize("encoding", FOREIGN)
def test_names_in_another_encoding_are_asked_for_and_never_read_wrong(tmp_path, encoding):
    names = FOREIGN[encoding].split()
    for name in names:
        found = _reading(tmp_path, _file([name], encoding))
        is_asked = "Name the right encoding with --encoding" in found
        assert found == [name] or (is_asked and (len(name) < 2 or f"{name} in " in found)), found
        assert _read(tmp_path, _file([name], encoding), encoding=encoding) == [name]
    with pytest.raises(BadRequest, match=r"line \d+: the file is not UTF-8"):
        _read(tmp_path, _file(names, encoding))


@pytest.mark.parametrize("language", WESTERN)
def test_names_of_western_europe_are_read_as_cp1252(tmp_path, language):
    names = WESTERN[language].split()
    assert _read(tmp_path, _file(names, "cp1252")) == names


def test_signs_of_western_text_are_read_as_cp1252(tmp_path):
    notes = [
        "Grüße aus Besançon – 5 €",
        "1.234,50 €",
        "€ 5",
        "£12.50",
        "“Best offer”, he said",
        "„Gut“ und ‚schön‘",
        "«Très bien»",
        "¿Qué? ¡Señor!",
        "18 m² bei 5 °C",
        "1990–1995",
        "d’Artagnan",
        "1\xa0234 €",
    ]
    text = "email;name\n" + "".join(f'a@b.co;"{note}"\n' for note in notes)
    assert _read(tmp_path, text.encode("cp1252")) == notes


def test_an_uncertain_word_is_asked_for(tmp_path):
    for word in [
        "Pawe³",
        "£ukasz",
        "Jos‚",
        "L—pez",
        "M¸ller",
        "Stra§e",
        "½ua",
        "Garc’a",
        "voil…",
        # Letters of one language, which other encodings have as well.
        "Nicolò",
        "Kjær",
        "Inês",
    ]:
        with pytest.raises(BadRequest, match="line 2: the file is not UTF-8"):
            _read(tmp_path, _file([word], "cp1252"))


def test_the_message_shows_a_name_in_each_likely_encoding(tmp_path):
    with pytest.raises(BadRequest) as refused:
        _read(tmp_path, _file(["Ada", "김철수"], "euc_kr"))
    assert "line 3: the file is not UTF-8" in refused.value.message
    assert "김철수 in euc_kr" in refused.value.message
    assert "±èÃ¶¼ö" not in refused.value.message
    for text in ("O’Neil", "Ana…", "café—bar", "Peña®", "N°"):
        with pytest.raises(BadRequest, match=f"{text} in cp1252"):
            _read(tmp_path, _file([text], "cp1252"))


def test_only_listed_encodings_are_taken(tmp_path):
    for encoding in ("zlib", "rot13", "idna", "unicode_escape", "utf-7", "cp0", "\0", "x" * 9999):
        with pytest.raises(BadRequest, match="is not a known encoding; choose one of utf-8"):
            _read(tmp_path, b"email,name\na@b.co,Ada\n", encoding=encoding)
    for encoding in [*ENCODINGS, "latin-1", "gbk", "windows-1252", "sjis", "euc-kr", "UTF-16LE"]:
        given = "utf-16-le" if encoding.lower().startswith("utf-16") else "ascii"
        content = "email,name\na@b.co,Ada\n".encode(given)
        assert _read(tmp_path, content, encoding=encoding) == ["Ada"], encoding


def test_a_stray_zero_makes_no_utf16(tmp_path):
    file = tmp_path / "people.csv"
    for content in (b"email,name\na@x.org,A\0na\n", b"email,name\na@x.org,A\0n\n"):
        file.write_bytes(content)
        with pytest.raises(BadRequest, match=r"U\+0000"):
            find_encoding(file)
