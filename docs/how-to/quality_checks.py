"""Rules of pandera and of Great Expectations as checks: what they find wrong is never published."""

import great_expectations as gx
import great_expectations.expectations as gxe
import pandera.pandas as pa
from pandera.errors import SchemaErrors

fits = pa.DataFrameSchema(  # the table has the types; here are the rules of each row
    {"id": pa.Column(nullable=False), "amount": pa.Column(nullable=True, checks=[pa.Check.ge(0), pa.Check.lt(1_000)])}
)
suite = gx.ExpectationSuite(
    name="orders",
    expectations=[
        gxe.ExpectColumnValuesToNotBeNull(column="id"),
        gxe.ExpectColumnValuesToBeUnique(column="id"),
        gxe.ExpectColumnValuesToBeBetween(column="amount", min_value=0, max_value=1_000),
    ],
)


def pandera_finds_nothing(df):
    """Validate batch by batch on the executors, and count what does not fit."""

    def failures(batches):
        for batch in batches:
            try:
                fits.validate(batch, lazy=True)
            except SchemaErrors as error:
                cases = error.failure_cases.assign(rows=1).groupby(["column", "check"], as_index=False)
                yield cases["rows"].sum()

    wrong = df.mapInPandas(failures, "column STRING, check STRING, rows BIGINT")
    found = wrong.groupBy("column", "check").sum("rows").orderBy("column", "check").collect()
    assert not found, "pandera: " + "; ".join(f"{column} {check}: {rows} rows" for column, check, rows in found)


def expectations_are_met(df):
    """Validate a suite, and say which expectations failed, and for how many rows."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_spark(name="staged").add_dataframe_asset(name="orders")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": df})
    failed = [result for result in batch.validate(suite).results if not result.success]
    assert not failed, "; ".join(
        f"{result.expectation_config.type}({result.expectation_config.kwargs.get('column', '')}):"
        f" {result.result.get('unexpected_count', result.result.get('observed_value', result.exception_info))} rows"
        for result in failed
    )
