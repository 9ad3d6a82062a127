"""Detection of a CSV file's encoding: UTF-8, UTF-16, or cp1252 as Excel for Windows writes it.

A byte order mark decides; without it the whole file is read. A file that is not UTF-8 is cp1252
only if its text looks like a language of Western Europe, since any 8-bit encoding decodes almost
any file. Otherwise the operator names the encoding: a wrong guess would store wrong names.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import BinaryIO

from crmhub.errors import BadRequest

_BLOCK = 1 << 20
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_OTHER_FILES = (
    (b"PK\x03\x04", "an Excel workbook or another zip file"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook"),
    (b"%PDF", "a PDF"),
    (b"\x1f\x8b", "compressed with gzip"),
    (codecs.BOM_UTF32_LE, "in UTF-32"),
    (codecs.BOM_UTF32_BE, "in UTF-32"),
)
_SAVE_AS = "Save it as CSV in UTF-8."
# The encodings whose readings of a word are shown to the operator.
_CANDIDATES = ("cp1252", "cp1250", "cp1251", "mac_roman", "cp850")
# An ASCII character is every second byte of text in UTF-16; other files have few zeros or many.
_ZEROS_RATIO = 10
_MAX_WORDS = 20_000

_WORD = re.compile(
    r"(?<![A-Za-z\x80-\U0010ffff])[A-Za-z]*+[\x80-\U0010ffff][A-Za-z\x80-\U0010ffff]*"
)
_LETTER = "À-ÖØ-öø-ÿŠŒŽšœžŸ"
# What other encodings look like when they are read as cp1252.
_FOREIGN = re.compile(
    # Cyrillic and Greek words have no ASCII letters.
    rf"[{_LETTER}]{{3,}}"
    # A sign inside of a word is a letter of another encoding.
    r"|[A-Za-z][¡-¶¸-¿×÷†‡ˆ‰‹›•˜™„…€‚ƒ][a-z]"
    # The Polish ł and ą at the end of a word. A short word may be a unit, such as cm³.
    r"|(?<=[A-Za-z]{3})[³¹¿¤¦]"
    # A capital inside of a word, such as the ü of Apple computers.
    r"|[a-z][À-ÖØ-ÞŠŽŒŸ]|[A-Z][À-ÖØ-ÞŠŽŸ][a-z]"
)


def find_encoding(path: Path) -> str:
    """Return the encoding of a text file: utf-8, utf-16-le, utf-16-be or cp1252.

    Raises BadRequest if the file is no text, or if its encoding cannot be determined; the message
    then shows a word of the file in several encodings.
    """
    with path.open("rb") as file:
        head = file.read(_BLOCK)
        for start, kind in _OTHER_FILES:
            if head.startswith(start):
                raise BadRequest(f"{path.name} is {kind}. {_SAVE_AS}")
        for mark, encoding in _MARKS:
            if head.startswith(mark):
                return encoding
        if b"\0" in head:
            return _utf16_without_mark(path.name, head)
        file.seek(0)
        if _is_utf8(file):
            return "utf-8"
        file.seek(0)
        return _western(path.name, file)


def has_mark(path: Path) -> bool:
    """Return whether a file begins with the byte order mark of UTF-8."""
    with path.open("rb") as file:
        return file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8


def normalize_encoding(encoding: str, path: Path) -> str:
    """Return the name of the encoding that the operator has named; its order of bytes is explicit.

    Raises LookupError for an unknown encoding, and BadRequest for UTF-32.
    """
    name = codecs.lookup(encoding).name
    if name.startswith("utf-32"):
        raise BadRequest(f"{path.name} is in UTF-32. {_SAVE_AS}")
    if name == "utf-16":
        with path.open("rb") as file:
            return "utf-16-be" if file.read(2) == codecs.BOM_UTF16_BE else "utf-16-le"
    return "utf-8" if name == "utf-8-sig" else name


def _utf16_without_mark(name: str, head: bytes) -> str:
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if odd > _ZEROS_RATIO * even:
        return "utf-16-le"
    if even > _ZEROS_RATIO * odd:
        return "utf-16-be"
    raise BadRequest(f"{name} is no text file: it contains the character U+0000. {_SAVE_AS}")


def _is_utf8(file: BinaryIO) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while block := file.read(_BLOCK):
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _western(name: str, file: BinaryIO) -> str:
    """Return "cp1252" if the file's text looks like a language of Western Europe."""
    words: set[str] = set()
    example = (0, b"")
    for number, line in enumerate(file, 1):
        if line.isascii():
            continue
        try:
            found = _WORD.findall(line.decode("cp1252"))
        except UnicodeDecodeError:
            raise _undecidable(name, number, line) from None
        example = example if example[0] else (number, line)
        for word in found:
            if word not in words and _FOREIGN.search(word):
                raise _undecidable(name, number, word.encode("cp1252"))
            if len(words) < _MAX_WORDS:
                words.add(word)
    if _mixes_languages({letter for word in words for letter in word.lower()}):
        raise _undecidable(name, *example)
    return "cp1252"


def _mixes_languages(letters: set[str]) -> bool:
    """Return whether no Western language has these letters together.

    So look Czech (ø for ř with ì for ě), Hungarian (õ for ő) and Turkish (þ for ş) as cp1252.
    """
    return bool(
        (letters & {"ø"} and letters & {"ì", "ù"})
        or (letters & {"õ"} and not letters & {"ã"} and letters & {"ö", "ü", "û"})
        or (letters & {"þ", "ð"} and not letters & {"æ", "á"} and letters & {"ü", "ç", "ã"})
    )


def _undecidable(name: str, number: int, text: bytes) -> BadRequest:
    readings = []
    for encoding in _CANDIDATES:
        try:
            words = _WORD.findall(text.decode(encoding))
        except UnicodeDecodeError:
            continue
        if words and words[0].isprintable():
            readings.append(f"{words[0][:40]} in {encoding}")
    shown = f" It may read {', '.join(readings)}." if readings else ""
    return BadRequest(
        f"{name}, line {number}: the file is not UTF-8, and its encoding cannot be determined."
        f"{shown} Name the right encoding with --encoding."
    )
