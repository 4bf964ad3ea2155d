"""Values to columns, and what does not fit to the dead-letter topic.  Pure functions of frames.

Always: every record of the source is in exactly one of the two frames, and which one depends on the record alone, so that a
batch run again decides the same.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from headrace.client.deadletter.deadletter import PREFIX
from headrace.spark.errors import PipelineError
from headrace.spark.options.option_types import parse_duration_ms
from headrace.spark.pipeline.file import PipelineFile, Schema

PARSED = "_parsed"
CORRUPT = "_corrupt"
REASON = "_reason"
RECORD = "record"
HEADERS = "array<struct<key:string,value:binary>>"
RECORD_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")


def parse(frame: DataFrame, schema: Schema) -> DataFrame:
    """The source's frame with the parsed value and, where it does not fit, the reason."""
    fields = parsed_type(schema)
    value = F.col("value").cast("string")
    parsed = F.from_json(value, fields, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT})
    return frame.withColumn(PARSED, parsed).withColumn(REASON, _reason(schema, fields))


def parsed_type(schema: Schema) -> StructType:
    try:
        fields: Any = StructType.fromDDL(schema.fields)
    except Exception as error:
        raise PipelineError(
            f"[schema] fields '{schema.fields}' is not a list of columns such as \"customer STRING, amount DOUBLE\": {error}"
        ) from None
    for name in (*schema.required, *([schema.time] if schema.time else [])):
        if name not in fields.fieldNames():
            raise PipelineError(f"[schema] requires '{name}', which is not among its fields {', '.join(fields.fieldNames())}")
    return StructType([*fields.fields, StructField(CORRUPT, StringType())])


def _reason(schema: Schema, fields: StructType) -> Column:
    parsed = F.col(PARSED)
    reason = F.when(F.col("value").isNull(), F.lit("the value is null"))
    reason = reason.when(
        parsed.isNull() | parsed[CORRUPT].isNotNull(), F.lit(f"the value is not JSON of the form {schema.fields}")
    )
    for name in schema.required:
        reason = reason.when(
            parsed[name].isNull(), F.lit(f"the field {name} is missing or not {fields[name].dataType.simpleString()}")
        )
    if schema.time and schema.future_max:
        # Against the broker's time of the record, not the clock: a batch run again decides the same.
        limit = F.timestamp_micros(F.unix_micros("timestamp") + F.lit(milliseconds(schema.future_max) * 1000))
        reason = reason.when(
            parsed[schema.time] > limit, F.lit(f"the {schema.time} is more than {schema.future_max} ahead of the record's own")
        )
    return reason


def milliseconds(text: str) -> int:
    found = parse_duration_ms(text)
    if found is None:
        raise PipelineError(f"'{text}' is not a length of time such as 10 minutes")
    return found


def good(parsed: DataFrame) -> DataFrame:
    """The parsed fields, and the record they came from as `record`."""
    kept = [name for name in RECORD_COLUMNS if name in parsed.columns]
    fine = parsed.where(F.col(REASON).isNull())
    fields = [name for name in _parsed_names(parsed) if name != CORRUPT]
    return fine.select(*[F.col(PARSED)[name].alias(name) for name in fields], F.struct(*kept).alias(RECORD))


def _parsed_names(parsed: DataFrame) -> Sequence[str]:
    fields = parsed.schema[PARSED].dataType
    assert isinstance(fields, StructType), "the parsed value is a struct"
    return fields.fieldNames()


def dead_letters(parsed: DataFrame, pipeline: PipelineFile) -> DataFrame:
    """Rows for the sink: the record as it was, with headers that say where it came from and why it is there."""
    bad = parsed.where(F.col(REASON).isNotNull())
    template = pipeline.dead_letter_topic or "{topic}.dead-letter"
    topic = F.replace(F.lit(template), F.lit("{topic}"), F.col("topic"))
    moment = F.date_format(F.current_timestamp(), "yyyy-MM-dd'T'HH:mm:ss.SSSXXX")
    facts: dict[str, Column] = {
        "topic": F.col("topic"),
        "partition": F.col("partition").cast("string"),
        "offset": F.col("offset").cast("string"),
        "timestamp": F.unix_millis("timestamp").cast("string"),
        "group": F.lit(pipeline.name),
        "cause": F.lit("undecodable"),
        "reason": F.col(REASON),
        "attempts": F.lit("1"),
        "first-failed-at": moment,
        "last-failed-at": moment,
    }
    ours = F.array(
        *[F.struct(F.lit(PREFIX + name).alias("key"), F.encode(fact, "UTF-8").alias("value")) for name, fact in facts.items()]
    )
    own = F.filter(F.coalesce("headers", F.array().cast(HEADERS)), lambda one: ~one["key"].startswith(PREFIX))
    return bad.select(topic.alias("topic"), "key", "value", F.concat(own, ours).cast(HEADERS).alias("headers"))
