"""Comet, the native engine of Apache DataFusion, as a plugin of the Spark that tests and benchmarks run."""

from __future__ import annotations

from typing import Final

from table_writer.testing.jars import resolve_jars

COMET: Final = "org.apache.datafusion:comet-spark-spark4.1_2.13:1.2.0"  # of Spark 4.2 and 4.3 there is none
OFF_HEAP: Final = "1g"  # in which Comet's own operators work, beside Java's heap


def comet_settings() -> dict[str, str]:
    """Return the settings of a session with Comet, downloading its jar (98 MB) at the first call."""
    (jar,) = resolve_jars("comet", [COMET], transitive=False)
    return {
        "spark.driver.extraClassPath": str(jar),
        "spark.executor.extraClassPath": str(jar),
        "spark.plugins": "org.apache.spark.CometPlugin",
        "spark.sql.extensions": "org.apache.comet.CometSparkSessionExtensions",
        "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
        "spark.comet.enabled": "true",
        "spark.comet.exec.enabled": "true",
        "spark.comet.exec.pyarrowUDF.enabled": "true",
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": OFF_HEAP,
    }
