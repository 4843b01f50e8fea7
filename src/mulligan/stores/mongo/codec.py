"""How documents are decoded: whatever another program wrote can be read."""

from typing import Any

from bson import Int64
from bson.codec_options import CodecOptions, DatetimeConversion, TypeDecoder, TypeRegistry
from bson.raw_bson import RawBSONDocument


class WholeNumbers(TypeDecoder):
    """Numbers of 64 bits as plain ones: the driver's own kind is no number to encoders of JSON."""

    bson_type = Int64

    def transform_bson(self, value: Any) -> int:
        """The same number."""
        return int(value)


# Dates beyond year 9999, and text that is none.
TOLERANT: dict[str, Any] = {
    "tz_aware": True,
    "datetime_conversion": DatetimeConversion.DATETIME_AUTO,
    "unicode_decode_error_handler": "replace",
}
# For what is read.
TO_READ: CodecOptions[dict[str, Any]] = CodecOptions(
    **TOLERANT, type_registry=TypeRegistry([WholeNumbers()])
)
# For what is written back as a whole: each number of the size that its program gave it.
TO_WRITE: CodecOptions[dict[str, Any]] = CodecOptions(**TOLERANT)
# For what is copied: it need not be anything that Python knows.
TO_COPY: CodecOptions[Any] = CodecOptions(document_class=RawBSONDocument, **TOLERANT)
