"""Options of sources that Spark knows: it passes over what it does not, and says nothing."""

import re
from collections.abc import Iterator

from muntin.errors import closest
from muntin.spec import SourceSpec

_OURS = "format path schema options"
_FILES = f"""
    {_OURS} basePath cleanSource discardCachedInputRatio fileNameOnly ignoreCorruptFiles
    ignoreMissingFiles latestFirst maxBytesPerTrigger maxCachedFiles maxFileAge maxFilesPerTrigger
    modifiedAfter modifiedBefore pathGlobFilter recursiveFileLookup sourceArchiveDir
"""
_TEXTS = f"""
    {_FILES} charset columnNameOfCorruptRecord compression dateFormat enableDateTimeParsingFallback
    encoding lineSep locale mode multiLine samplingRatio singleVariantColumn timeFormat timeZone
    timestampFormat timestampNTZFormat
"""
KNOWN = {
    "csv": f"""
        {_TEXTS} charToEscapeQuoteEscaping codec columnPruning comment delimiter emptyValue
        enforceSchema escape escapeQuotes extension header ignoreLeadingWhiteSpace
        ignoreTrailingWhiteSpace inferSchema inputBufferSize maxCharsPerColumn maxColumns
        maxMalformedLogPerPartition nanValue negativeInf nullValue positiveInf preferDate quote
        quoteAll sep unescapedQuoteHandling
    """,
    "json": f"""
        {_TEXTS} allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers
        allowNumericLeadingZero allowNumericLeadingZeros allowSingleQuotes
        allowUnquotedControlChars allowUnquotedFieldNames dropFieldIfAllNull explodeEmbeddedArray
        ignoreNullFields inferTimestamp prefersDecimal pretty primitivesAsString sortKeys
        useUnsafeRow writeNonAsciiCharacterAsCodePoint
    """,
    "parquet": f"{_FILES} compression datetimeRebaseMode int96RebaseMode mergeSchema",
    "kafka": f"""
        {_OURS} value jars assign endingOffsets endingOffsetsByTimestamp endingTimestamp
        failOnDataLoss groupIdPrefix includeHeaders maxOffsetsPerTrigger maxRecordsPerPartition
        maxTriggerDelay minOffsetsPerTrigger minPartitions startingOffsets
        startingOffsetsByTimestamp startingOffsetsByTimestampStrategy startingTimestamp subscribe
        subscribePattern
    """,
}

_COUNTS = "maxoffsetspertrigger", "minoffsetspertrigger", "maxrecordsperpartition", "minpartitions"


def wrong_counts(source: SourceSpec) -> Iterator[str]:
    """A line for each number of Kafka's source that is none: by a limit of 0 Spark takes nothing,
    and a run that should take all that is there ends well."""
    for name, value in source.options.items() if source.format == "kafka" else ():
        if name.lower() in _COUNTS and not re.fullmatch(r"\+?0*[1-9][0-9]*", value):
            yield f"source.{name}: {value!r} is no whole number above 0"


def mistyped(source: SourceSpec) -> Iterator[str]:
    """A line for each option that is not known, where a known one is close. Those with dots are of
    Hadoop, or of Kafka's clients."""
    known = {name.casefold(): name for name in KNOWN.get(source.format, "").split()}
    meant = known | ({"separator": "sep"} if "sep" in known else {})
    for name in source.options:
        if "." not in name and name.casefold() not in known and (near := closest(name, meant)):
            yield f"source.{name}: no option of {source.format}; did you mean '{meant[near]}'?"
