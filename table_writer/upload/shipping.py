"""."""
from pyspark import SparkContext
def prepare_executors(context: SparkContext) -> None:
    """."""
