"""The token file: which token has which roles."""

import hashlib
import hmac
import stat
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct

from mulligan.core.errors import InvalidError

Role = Literal["read", "operate", "worker"]
ROLES: tuple[str, ...] = get_args(Role)
SHORTEST = 32


class Tokens(Struct, frozen=True):
    """The roles of each token, of which only the digest is kept."""

    roles: dict[bytes, frozenset[str]]

    def roles_of(self, token: str) -> frozenset[str]:
        """The roles of the token; none if it is unknown. It is compared with every token.

        So neither the time nor the order of the file says how close a guess was.
        """
        offered = digest(token)
        found: frozenset[str] = frozenset()
        for known, roles in self.roles.items():
            if hmac.compare_digest(known, offered):
                found = roles
        return found


def digest(token: str) -> bytes:
    """A digest has the same length for all tokens, so that comparing takes the same time."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def read_tokens(path: Path) -> Tokens:
    """The tokens of a file, `role token` on each line.

    Refuses one that everybody may read, or that others than its owner may write.
    """
    try:
        mode = path.stat().st_mode
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise InvalidError(f"token file {path} cannot be read: {reason}") from error
    if mode & stat.S_IROTH:
        raise InvalidError(
            f"token file {path} has mode {stat.S_IMODE(mode):o}, readable by everyone;"
            f" run: chmod 600 {path}"
        )
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise InvalidError(
            f"token file {path} has mode {stat.S_IMODE(mode):o}, writable by others, who could add"
            f" a token of their own; run: chmod 600 {path}"
        )
    roles: dict[bytes, frozenset[str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        role, token = checked(path, number, words)
        allowed = {role, "read"} if role == "operate" else {role}
        roles[digest(token)] = roles.get(digest(token), frozenset()) | allowed
    if not roles:
        raise InvalidError(f"token file {path} has no token; write a line such as: read TOKEN")
    return Tokens(roles)


def checked(path: Path, number: int, words: list[str]) -> tuple[str, str]:
    """The role and the token of a line; the token itself is never shown."""
    where = f"token file {path} line {number}"
    if len(words) != 2:  # noqa: PLR2004 - a role and a token
        raise InvalidError(f"{where} has {len(words)} words; write: role token")
    role, token = words
    if role not in ROLES:
        raise InvalidError(f"{where}: role {role[:20]!r} is not one of {', '.join(ROLES)}")
    if len(token) < SHORTEST:
        raise InvalidError(
            f"{where}: the token has {len(token)} characters; use at least {SHORTEST},"
            " such as the output of: openssl rand -hex 32"
        )
    return role, token
