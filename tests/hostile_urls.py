"""Addresses that must lead nowhere; `{port}` is that of a listener which must hear nothing."""

from __future__ import annotations

_WITHOUT_BLANKS = r"""
    http://127.0.0.1:{port}/ https://127.0.0.1:{port}/ HTTP://127.0.0.1:{port}/
    http://127.1:{port}/ http://127.0.1:{port}/ http://2130706433:{port}/
    http://0x7f000001:{port}/ http://0x7f.0.0.1:{port}/ http://0x7f.1:{port}/
    http://0177.0.0.1:{port}/ http://017700000001:{port}/ http://0:{port}/ http://0.0.0.0:{port}/
    http://127.0.0.1.:{port}/ http://localhost:{port}/ http://LOCALHOST:{port}/
    http://localhost.:{port}/ http://[::1]:{port}/ http://[0:0:0:0:0:0:0:1]:{port}/
    http://[::]:{port}/ http://[::ffff:127.0.0.1]:{port}/ http://[::ffff:7f00:1]:{port}/
    http://[::127.0.0.1]:{port}/ http://[64:ff9b::7f00:1]:{port}/ http://[2002:7f00:1::]:{port}/
    http://[fe80::1%25lo]:{port}/ http://[::1%25lo]:{port}/ http://[::1%lo]:{port}/
    http://[::1]x:{port}/ http://[127.0.0.1]:{port}/ http://１２７.0.0.1:{port}/
    http://①②⑦.0.0.1:{port}/ http://127。0。0。1:{port}/ http://ⓛocalhost:{port}/
    http://%6cocalhost:{port}/ http://127.0.0.1%2f@crm.example:{port}/
    http://127.0.0.1%00.crm.example:{port}/ https://crm.example@127.0.0.1:{port}/
    https://crm.example:x@127.0.0.1:{port}/ https://crm.example%40127.0.0.1:{port}/
    https://@127.0.0.1:{port}/ https://:@127.0.0.1:{port}/ http://127.0.0.1\@crm.example:{port}/
    http://crm.example#@127.0.0.1:{port}/ http://crm.example\@127.0.0.1:{port}/
    http:127.0.0.1:{port}/ http:/127.0.0.1:{port}/ http:///127.0.0.1:{port}/ http://:{port}/
    https:// https:///path //127.0.0.1:{port}/ 127.0.0.1:{port} http://127.0.0.1:0/
    https://crm.example:0/ https://crm.example:99999/ https://crm.example:-1/
    https://crm.example:１/ ftp://127.0.0.1:{port}/ file:///etc/passwd gopher://127.0.0.1:{port}/
    unix:///run/docker.sock http+unix://%2Frun%2Fdocker.sock/ data:text/plain,x
    https://*.crm.example/ https://.crm.example/ https://crm..example/ https://-/ http://metadata/
    http://169.254.169.254/latest/ https://[fd00:ec2::254]/ http://0xA9FEA9FE/ http://2852039166/
"""

HOSTILE = [
    *_WITHOUT_BLANKS.split(),
    "http://lo\u00adcalhost:{port}/",
    "http://127.0.0.1:{port}\r\nX: y/",
    "http://127.0.0.1 :{port}/",
    "http://127.0.0.1\t:{port}/",
    "http:// 127.0.0.1:{port}/",
    "\thttp://127.0.0.1:{port}/",
    "ht\ntp://127.0.0.1:{port}/",
    "http://127.0.0.1\x00.crm.example:{port}/",
    "http://127.0.0.1\u2028:{port}/",
    "https://" + "a" * 64 + ".example/",
    "https://" + "a." * 200 + "example/",
    "",
    " ",
]
