"""`format("headrace")`: where Spark finds readers and writers.

Spark asks each of its questions (which formats are there, which columns, which tasks) in a Python process of its own, and each of
those imports this module.  So readers and writers, with all that they stand on, are imported only where they are asked for.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from headrace.spark.errors import OptionError
from headrace.spark.options.options import sink_options, source_options


class HeadraceSource(DataSource):
    """A source and a sink, batch and streaming, for anything that speaks Kafka's protocol."""

    @classmethod
    def name(cls) -> str:
        return "headrace"

    def schema(self) -> StructType:
        from headrace.spark.source.rows import source_schema

        # Asked at load(), before it is known whether the read streams: what is wrong with the options is best said here.
        options = source_options(self.options, streaming=None)
        if options.value is None:
            return source_schema(include_headers=options.include_headers)
        from headrace.spark.schemas.value_format import value_column

        return source_schema(include_headers=options.include_headers, value=value_column(options.value))

    def reader(self, schema: StructType) -> DataSourceReader:
        from headrace.spark.source.batch import BatchReader
        from headrace.spark.source.rows import check_source_schema

        options = source_options(self.options, streaming=False)
        check_source_schema(schema, value_is_typed=options.value is not None)
        return BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from headrace.spark.source.rows import check_source_schema
        from headrace.spark.source.stream import StreamReader

        options = source_options(self.options, streaming=True)
        check_source_schema(schema, value_is_typed=options.value is not None)
        return StreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from headrace.spark.sink.outgoing import check_sink_schema
        from headrace.spark.sink.writer import BatchWriter

        if overwrite:
            raise OptionError("a topic is only appended to: write with mode('append')")
        options = sink_options(self.options)
        check_sink_schema(schema, options.topic, value_is_typed=options.value is not None)
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from headrace.spark.sink.outgoing import check_sink_schema
        from headrace.spark.sink.writer import StreamWriter

        options = sink_options(self.options)
        check_sink_schema(schema, options.topic, value_is_typed=options.value is not None)
        return StreamWriter(options)
