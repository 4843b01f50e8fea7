"""Hides secrets in text: those after a secret name, in a URL, or after an auth scheme.

The time is linear in the length of any text: no pattern scans a part of it twice.
"""

import re
from collections.abc import Iterable

HIDDEN = "***"
# Names whose values may be several words: the rest of the line.
LONG_NAMES = "authorization|cookie|passphrase"
NAMES = rf"{LONG_NAMES}|passw|pwd|secret|token|(?:api|access|private)[-_]?key|credential|dsn"
# Between a name and its value: password=x, "password": "x", env["PASSWORD"] = x, ('password', x);
# a quote has backslashes before it in JSON that is itself in a string.
BETWEEN = r"""(?:\\*+["'])?\]?\s*+(?:=>|->|:=|[:=])\s*+|\\*+["']\s*+,\s*+"""
# What may end a value, or begin or end a part of it.
MARK = re.compile(
    r"""(?P<quote>(?<!\\)\\*+["'])|(?P<opening>[\[{(])|(?P<closing>[\]})])|(?P<end>[\s,;&])"""
)
BEARER = re.compile(r"""(?i)\b(bearer\s++)[^\s"'\\,;)\]}]++""")
WORD = re.compile(r"\S++")
BEFORE_PASSWORD = re.compile(r"://[^:/@]*:")


class Redactor:
    """Knows secrets by the usual names and by those that contain any of `words`."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        names = "|".join([NAMES, *(re.escape(word) for word in words if word)])
        self._name = re.compile(names, re.IGNORECASE)
        # What follows the name is optional, so that every match moves on.
        self._said = re.compile(
            rf"(?i)(?:(?P<long>{LONG_NAMES})|{names})[\w-]*+(?P<between>{BETWEEN})?+"
        )

    def is_secret(self, name: str) -> bool:
        """Whether the values under this name are secrets."""
        return self._name.search(name) is not None

    def text(self, text: str) -> str:
        """The text with each secret replaced by `***`; in doubt, more is hidden."""
        text = BEARER.sub(rf"\1{HIDDEN}", without_passwords(text))
        parts: list[str] = []
        kept = at = 0
        while (said := self._said.search(text, at)) is not None:
            start = at = said.end()
            if said["between"] is None:
                continue
            long = said["long"] is not None and MARK.match(text, start) is None
            end = end_of_value(text, start, long=long)
            if end > start:
                parts += text[kept:start], HIDDEN
                kept = at = end
        return "".join([*parts, text[kept:]])


def without_passwords(text: str) -> str:
    """The text with the passwords in its URLs hidden, each up to the last @ of its word."""
    return WORD.sub(hide_password, text) if "://" in text else text


def hide_password(word: re.Match[str]) -> str:
    """The word with everything between the name of a URL's user and the last @ hidden."""
    at = word[0].rfind("@") + 1
    before = BEFORE_PASSWORD.search(word[0], 0, at)
    return word[0] if before is None else f"{word[0][: before.end()]}{HIDDEN}{word[0][at - 1 :]}"


def end_of_value(text: str, start: int, *, long: bool) -> int:
    """Where the value that begins at `start` ends: at a mark outside all quotes and brackets."""
    depth, at = 0, start
    while (mark := MARK.search(text, at)) is not None:
        if mark["quote"] is not None:
            at = end_of_quoted(text, mark.end(), mark["quote"])
        elif mark["opening"] is not None:
            depth, at = depth + 1, mark.end()
        elif depth > 0:
            depth, at = depth - (mark["closing"] is not None), mark.end()
        elif long and mark[0] != "\n":
            at = mark.end()
        else:
            return mark.start()
    return len(text)


def end_of_quoted(text: str, start: int, quote: str) -> int:
    """Where the string that the quote began ends: after the next one with as many backslashes."""
    while (at := text.find(quote, start)) >= 0:
        if text[at - 1] != "\\":
            return at + len(quote)
        start = at + 1
    return len(text)
