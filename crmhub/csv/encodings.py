"""Detection of a CSV file's encoding: UTF-8, UTF-16, or cp1252 as Excel for Windows writes it.

A file without byte order mark that is not UTF-8 is cp1252 only if each word is certainly Western
(`western`): any 8-bit encoding decodes almost any file. Otherwise the operator names it.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from crmhub.csv.western import find_foreign
from crmhub.errors import BadRequest
from crmhub.translatable import translatable

ENCODINGS = {
    "utf-8": "UTF-8",
    "utf-16": "UTF-16",
    "cp1252": translatable("Windows, Western Europe (cp1252)"),
    "cp1250": translatable("Windows, Central Europe (cp1250)"),
    "cp1251": translatable("Windows, Cyrillic (cp1251)"),
    "cp1253": translatable("Windows, Greek (cp1253)"),
    "cp1254": translatable("Windows, Turkish (cp1254)"),
    "cp1255": translatable("Windows, Hebrew (cp1255)"),
    "cp1256": translatable("Windows, Arabic (cp1256)"),
    "cp1257": translatable("Windows, Baltic (cp1257)"),
    "cp1258": translatable("Windows, Vietnamese (cp1258)"),
    "cp874": translatable("Windows, Thai (cp874)"),
    "shift_jis": translatable("Japanese (Shift JIS)"),
    "euc_jp": translatable("Japanese (EUC-JP)"),
    "iso2022_jp": translatable("Japanese (ISO 2022)"),
    "gb18030": translatable("Chinese, simplified (GB 18030, GBK)"),
    "big5": translatable("Chinese, traditional (Big5)"),
    "euc_kr": translatable("Korean (EUC-KR)"),
    "koi8-r": translatable("Cyrillic (KOI8-R)"),
    "koi8-u": translatable("Cyrillic (KOI8-U)"),
    "mac_roman": translatable("Mac, Western Europe"),
    "mac_latin2": translatable("Mac, Central Europe"),
    "mac_cyrillic": translatable("Mac, Cyrillic"),
    "mac_greek": translatable("Mac, Greek"),
    "mac_turkish": translatable("Mac, Turkish"),
    "cp437": translatable("DOS, United States (cp437)"),
    "cp850": translatable("DOS, Western Europe (cp850)"),
    "cp852": translatable("DOS, Central Europe (cp852)"),
    "cp866": translatable("DOS, Cyrillic (cp866)"),
    "iso8859-2": translatable("Latin-2, Central Europe (ISO 8859-2)"),
    "iso8859-5": translatable("Cyrillic (ISO 8859-5)"),
    "iso8859-7": translatable("Greek (ISO 8859-7)"),
    "iso8859-13": translatable("Latin-7, Baltic (ISO 8859-13)"),
    "iso8859-15": translatable("Latin-9, Western Europe (ISO 8859-15)"),
    "iso8859-16": translatable("Latin-10, Romanian (ISO 8859-16)"),
}
"""The encodings that can be named, with their labels."""

# What Windows writes under these names has more characters than the standard.
_READ_AS = {
    "shift_jis": "cp932",
    "gbk": "gb18030",
    "gb2312": "gb18030",
    "big5": "cp950",
    "euc_kr": "cp949",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "utf-8-sig": "utf-8",
}
_CODECS = {"utf-16-le", "utf-16-be"} | {
    _READ_AS.get(name, name) for name in (codecs.lookup(each).name for each in ENCODINGS)
}
_BLOCK = 1 << 20
_LONGEST_LINE = 4 << 20
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
# An ASCII character is every second byte of text in UTF-16; other files have few zeros or many.
_ZEROS_RATIO = 10
# ISO 2022 switches to its characters with these bytes.
_ESCAPES = (b"\x1b$", b"\x1b(")
# A run of bytes that may be a word in some encoding: the second byte may be that of an ASCII sign.
_RUN = re.compile(rb"\x1b\$[@AB][^\x1b]*\x1b\([A-Z]|[@-~\x80-\xff]+")
# What word processors write beside letters, and people in addresses and names of products.
_IN_TEXTS = frozenset("’‘“”–—…®™°½¼€£")
_SHOWN_BYTES = 60
_SHOWN_CHARACTERS = 30


def find_encoding(path: Path) -> str:
    """Raises BadRequest with a word in several encodings if the encoding cannot be determined."""
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


def mark_of(path: Path) -> str:
    """Return "" without a mark."""
    with path.open("rb") as file:
        head = file.read(len(codecs.BOM_UTF8))
    return next((encoding for mark, encoding in _MARKS if head.startswith(mark)), "")


def normalize_encoding(encoding: str) -> str:
    """Raises LookupError unless the encoding is listed in ENCODINGS."""
    try:
        name = codecs.lookup(encoding).name
    except ValueError:
        raise LookupError(encoding) from None
    codec = _READ_AS.get(name, name)
    if codec not in _CODECS:
        raise LookupError(encoding)
    return codec


def named_encoding(encoding: str, path: Path) -> str:
    """Raises BadRequest if the encoding is not listed, or if the byte order mark contradicts."""
    try:
        codec = normalize_encoding(encoding)
    except LookupError:
        raise BadRequest(
            f"{encoding[:40]} is not a known encoding; choose one of {', '.join(ENCODINGS)}."
        ) from None
    mark = mark_of(path)
    if mark and not mark.startswith(codec):
        raise BadRequest(f"{path.name} is in {mark}, as its byte order mark says, not {codec}.")
    return mark or ("utf-16-le" if codec == "utf-16" else codec)


def split_lines(file: BinaryIO, encoding: str, name: str, *, first: int = 1) -> Iterator[bytes]:
    """Lines end with LF, CR LF, or CR alone. Raises BadRequest for a line longer than 4 MiB."""
    width = 2 if encoding.startswith("utf-16") else 1
    codec = encoding if width == 2 else "ascii"
    cr, lf = "\r".encode(codec), "\n".encode(codec)
    # A CR at the end of a block may be followed by a LF in the next one.
    pattern = re.compile(rb"%b%b|%b|%b(?=[\s\S])" % (cr, lf, lf, cr))
    rest = b""
    while block := file.read(_BLOCK):
        data, start = rest + block, 0
        for match in pattern.finditer(data):
            if match.start() % width == 0:
                yield data[start : match.end()]
                start, first = match.end(), first + 1
        rest = data[start:]
        if len(rest) > _LONGEST_LINE:
            raise BadRequest(f"{name}, line {first}: the line is longer than 4 MiB.")
    if rest:
        yield rest


def _utf16_without_mark(name: str, head: bytes) -> str:
    even, odd = head[0::2].count(0), head[1::2].count(0)
    # A stray U+0000 in a file of bytes stands beside no line end.
    if odd > _ZEROS_RATIO * even and any(end in head for end in (b"\n\0", b"\r\0")):
        return "utf-16-le"
    if even > _ZEROS_RATIO * odd and any(end in head for end in (b"\0\n", b"\0\r")):
        return "utf-16-be"
    raise BadRequest(f"{name} is no text file: it contains the character U+0000. {_SAVE_AS}")


def _is_utf8(file: BinaryIO) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while block := file.read(_BLOCK):
            if any(escape in block for escape in _ESCAPES):
                return False
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _western(name: str, file: BinaryIO) -> str:
    for number, line in enumerate(split_lines(file, "cp1252", name), 1):
        at = max(map(line.find, _ESCAPES))
        if line.isascii() and at < 0:
            continue
        try:
            foreign = next(find_foreign(line.decode("cp1252")), "")
        except UnicodeDecodeError as exc:
            at = exc.start
        else:
            if foreign:
                at = line.find(foreign.encode("cp1252"))
        if at >= 0:
            raise _undecidable(name, number, line, at)
    return "cp1252"


def _undecidable(name: str, number: int, line: bytes, at: int) -> BadRequest:
    run = next((match[0] for match in _RUN.finditer(line) if match.end() > at), line)
    encodings_by_text: dict[str, list[str]] = {}
    for encoding in [each for each in ENCODINGS if not each.startswith("utf")]:
        try:
            decoder = codecs.getincrementaldecoder(normalize_encoding(encoding))()
            text = decoder.decode(run[:_SHOWN_BYTES], final=len(run) <= _SHOWN_BYTES)
        except UnicodeDecodeError:
            continue
        likely = (sign in _IN_TEXTS or unicodedata.category(sign)[0] in "LM" for sign in text)
        if not text.isascii() and all(likely):
            encodings_by_text.setdefault(text[:_SHOWN_CHARACTERS], []).append(encoding)
    readings = (f"{text} in {' or '.join(found)}" for text, found in encodings_by_text.items())
    shown = f" It may read {', '.join(readings)}." if encodings_by_text else ""
    return BadRequest(
        f"{name}, line {number}: the file is not UTF-8, and its encoding cannot be determined."
        f"{shown} Name the right encoding with --encoding."
    )
