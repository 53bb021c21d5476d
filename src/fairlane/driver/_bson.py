"""How values become BSON and back, whatever the client is configured to do."""

from datetime import UTC
from typing import Any

from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.raw_bson import RawBSONDocument

__all__ = ("BSON", "MOCK_BSON", "RAW_BSON", "Document")

Document = dict[str, Any]

BSON: CodecOptions[Document] = CodecOptions(
    tz_aware=True,
    tzinfo=UTC,
    uuid_representation=UuidRepresentation.STANDARD,
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
)
RAW_BSON: CodecOptions[RawBSONDocument] = CodecOptions(
    document_class=RawBSONDocument,
    tz_aware=True,
    tzinfo=UTC,
    uuid_representation=UuidRepresentation.UNSPECIFIED,  # so that a broken UUID passes as bytes
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
)
MOCK_BSON: CodecOptions[Document] = CodecOptions(tz_aware=True)
