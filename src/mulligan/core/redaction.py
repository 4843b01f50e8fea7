"""Hides secrets in text: those after a secret name, in a URL, or after an auth scheme.

The time is linear in the length of any text: no pattern scans a part of it twice.
"""

import re
from collections.abc import Iterable
from urllib.parse import unquote

from mulligan.core.errors import InvalidError

HIDDEN = "***"
# Names whose values may be several words: the rest of the line.
LONG_NAMES = "authorization|cookie|passphrase"
NAMES = rf"{LONG_NAMES}|passw|pwd|secret|token|(?:api|access|private)[-_ ]?key|credential|dsn"
# Names that are secret only as a whole word.
WORDS = "auth|jwt|otp|pass|pin|pw|sid|sig|signature|session[-_]?id"
# What may follow a name before the sign that a value follows: get_password(), db.password.value,
# password(s), password?, API key provided.
TAIL = r"(?:[\w-]|\.\w|\(s?\))*+(?:[?!]|[^\x00-\uffff])?(?:\s(?:provided|given|used)(?=\s*:))?+"
# Between a name and its value: password=x, "password": "x", env["PASSWORD"] = x, ('password', x),
# {"name": "password", "value": x}, <password>x, --password x, password 'x', password%3Dx; a quote
# has backslashes before it in JSON that is itself in a string.
BETWEEN = r"""(?:\\*+["'])?\]?\s*+(?:=>|->|[:!=]?={1,3}|:|%3[AD]|\#|>)\s*+(?:[|>][+-]?[ ]*+\n\s*+)?+
|\\*+["']\]?\s*+,\s*+(?:\\*+["']value\\*+["']\s*+:\s*+)?+
|\s++(?=[`"'])
|\s++(?:is|was)\s++(?!(?:an?|empty|expired|for|hidden|in|incorrect|invalid|longer|missing|needed|no
    |not|null|required|set|short|the|to|too|unset|used|weak|wrong)\b)"""
# What may end a value, or begin or end a part of it.
MARK = re.compile(
    r"""(?P<quote>(?<!\\)\\*+["'`])|(?P<opening>[\[{(])|(?P<closing>[\]})])|(?P<end>[\s,;&])"""
)
# After a mark of these a value goes on, unless the name of another value follows.
GOES_ON = re.compile(r"(?<=[,;&)\]}])(?=\w)(?![\w.-]++\s*[=:])")
SCHEME = re.compile(r"(?i)(?:basic|bearer|digest|negotiate|token)\s++")
WORD = re.compile(r"\S++")
BEFORE_PASSWORD = re.compile(r"://[^:/@]*:")
# Secrets that are known by their form, each with what is kept before and after.
BEARER = re.compile(r"""(?i)\b(bearer\s++)[^\s"'\\,;)\]}]++()""")
FORMS = (
    (r"(?<![\w-])()eyJ[\w-]{5,}+\.[\w-]++\.[\w-]*+()", "eyJ"),
    (r"(Secret(?:Str|Bytes)\()[^)\n]*+()", "Secret"),
    (r"(-----BEGIN[A-Z ]{0,20} PRIVATE KEY-----)(?:(?!-----END)[\s\S])*+()", " PRIVATE KEY-----"),
    (r"(\bIDENTIFIED\s++BY\s++)'[^'\n]*+'?()", "IDENTIFIED"),
    (r"(?<![\w-])(AUTH\s++)[^\s*]\S*+(?:[ ]\S++)?()", "AUTH "),
    (r"((?:\A|(?<=\s))-p)[^\s=-]\S*+()", "mysql"),
    (r"((?:\A|(?<=\s))(?:-u|--user)\s++[^\s:]++:)\S++()", "curl"),
    (r"(?m)(^[^:\s]++:(?:\d++|\*):[^:\s]++:[^:\s]++:)\S++()$", ":"),
    (r"(?i)(passw\w*+\s++)[^\s:=]\S*+(\s++for\s++user\b)", " for "),
)
FORMS_OF_SECRETS = [(re.compile(pattern), part) for pattern, part in FORMS]
# Names with letters that look like those of ASCII, at the same places; what is invisible goes away.
INVISIBLE = dict.fromkeys((0x00AD, *range(0x200B, 0x2010), 0x2060, 0xFEFF))
CYRILLIC = (0x430, 0x435, 0x456, 0x43E, 0x440, 0x441, 0x443, 0x445, 0x455, 0x501)
ALIKE = str.maketrans(
    # a, e, i, o, p, c, y, x, s and d of Cyrillic
    dict(zip(map(chr, CYRILLIC), "aeiopcyxsd", strict=True))
    | {chr(0xFF01 + at): chr(0x21 + at) for at in range(94)}
    | dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"')
    | {"\u2018": "'", "\u2019": "'", "\u212a": "k"}
)
ESCAPED_NAME = re.compile(r"(?<![\w%-])([\w-]*+%[0-9A-Fa-f]{2}[\w%-]*+)=[^&\s]*+")
# An option is sought no further before a name.
OPTION_LIMIT = 64
SPACES = re.compile(r"[ ]++(?=[^\s-])")


class Redactor:
    """Knows secrets by the usual names and by their form.

    Names are secret too that contain any word of `more`, and so is what a pattern of it matches.
    """

    def __init__(self, more: Iterable[str | re.Pattern[str]] = ()) -> None:
        given = [each for each in more if each]
        words = [re.escape(each) for each in given if isinstance(each, str)]
        names = "|".join([NAMES, *words])
        alone = rf"(?<![a-z])(?:{WORDS})(?![a-z])"
        self._name = re.compile(f"{names}|{alone}", re.IGNORECASE)
        self._patterns = [each for each in given if isinstance(each, re.Pattern)]
        # What follows the name is optional, so that every match moves on.
        self._said = re.compile(
            rf"(?:(?P<long>{LONG_NAMES})|{names}|{alone}){TAIL}(?P<between>{BETWEEN})?+",
            re.IGNORECASE | re.VERBOSE,
        )

    def is_secret(self, name: str) -> bool:
        """Whether the values under this name are secrets."""
        return self._name.search(name.translate(INVISIBLE).translate(ALIKE)) is not None

    def text(self, text: str) -> str:
        """The text with each secret replaced by `***`; in doubt, more is hidden."""
        if not text.isascii():
            text = text.translate(INVISIBLE)
        text = BEARER.sub(rf"\1{HIDDEN}", without_passwords(text))
        for form, part in FORMS_OF_SECRETS:
            if part in text:
                text = form.sub(rf"\g<1>{HIDDEN}\g<2>", text)
        for pattern in self._patterns:
            text = pattern.sub(HIDDEN, text)
        if "%" in text:
            text = ESCAPED_NAME.sub(self._hide_escaped, text)
        return self._without_named(text, text if text.isascii() else text.translate(ALIKE))

    def _hide_escaped(self, said: re.Match[str]) -> str:
        """A name=value of a query, hidden if the name is a secret one whose letters are escaped."""
        name = unquote(said[1])
        return f"{said[1]}={HIDDEN}" if self.is_secret(name) else said[0]

    def _without_named(self, text: str, read: str) -> str:
        """The text without values under secret names, which are sought in `read`."""
        parts: list[str] = []
        kept = at = 0
        while (said := self._said.search(read, at)) is not None:
            start = at = said.end()
            if said["between"] is None:
                apart = SPACES.match(read, start) if is_option(read, said.start()) else None
                if apart is None:
                    continue
                start = at = apart.end()
            long = said["long"] is not None and MARK.match(read, start) is None
            end = end_of_value(read, start, long=long)
            if end > start:
                parts += text[kept:start], HIDDEN
                kept = at = end
        return "".join([*parts, text[kept:]])


def check_redact(given: object) -> tuple[str | re.Pattern[str], ...]:
    """Return what an app says is secret, or refuse what is neither a word nor a pattern."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidError(
            f"redact {given!r} must be a list of words and patterns; for one, [word]"
        )
    for each in (checked := tuple(given)):
        if not isinstance(each, str | re.Pattern) or isinstance(
            getattr(each, "pattern", ""), bytes
        ):
            raise InvalidError(f"redact {each!r} must be a word or re.compile(...) of text")
    return checked


def without_passwords(text: str) -> str:
    """The text with the passwords in its URLs hidden, each up to the last @ of its word."""
    return WORD.sub(hide_password, text) if "://" in text else text


def hide_password(word: re.Match[str]) -> str:
    """The word with everything between the name of a URL's user and the last @ hidden."""
    at = word[0].rfind("@") + 1
    before = BEFORE_PASSWORD.search(word[0], 0, at)
    return word[0] if before is None else f"{word[0][: before.end()]}{HIDDEN}{word[0][at - 1 :]}"


def is_option(text: str, at: int) -> bool:
    """Whether the word around this place begins as an option of a command does."""
    least = max(0, at - OPTION_LIMIT)
    begin = max(text.rfind(mark, least, at) for mark in " \n\t\"'")
    return text.startswith("-", begin + 1 if begin >= 0 else least)


def end_of_value(text: str, start: int, *, long: bool) -> int:
    """Where the value that begins at `start` ends: at a mark outside all quotes and brackets."""
    depth, at = 0, start
    if (scheme := SCHEME.match(text, start)) is not None:
        at = scheme.end()
    while (mark := MARK.search(text, at)) is not None:
        if mark["quote"] is not None:
            at = end_of_quoted(text, mark.end(), mark["quote"])
        elif mark["opening"] is not None:
            depth, at = depth + 1, mark.end()
        elif depth > 0:
            depth, at = depth - (mark["closing"] is not None), mark.end()
        elif (long and mark[0] != "\n") or GOES_ON.match(text, mark.end()) is not None:
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
