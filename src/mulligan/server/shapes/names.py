"""Names and numbers as they may arrive in a request."""

from typing import Annotated, Literal

from msgspec import Meta

from mulligan.core.checks import LONGEST, NAME_LIMIT
from mulligan.core.settings import BATCH_LIMIT, TEXT_LIMIT

# Text without control characters.
PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f]*$"
Name = Annotated[str, Meta(min_length=1, max_length=NAME_LIMIT, pattern=PRINTABLE)]
# An option that may be left out: empty text and null are absent, as encoders of Go write them.
Option = Annotated[str, Meta(max_length=NAME_LIMIT, pattern=PRINTABLE)]
GivenPriority = Literal["", "normal", "retry", "urgent", 0, 1, 2]
Words = Annotated[str, Meta(min_length=1, max_length=TEXT_LIMIT, pattern=r"^[^\x00]*$")]
Cursor = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00]*$")]
Wait = Annotated[float, Meta(ge=0, le=LONGEST)]
Span = Annotated[float, Meta(ge=0.001, le=LONGEST)]
Token = Annotated[int, Meta(ge=0, le=2**53)]
Ids = Annotated[list[Name], Meta(min_length=1, max_length=BATCH_LIMIT)]
