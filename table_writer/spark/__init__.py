"""The gateway to Spark: everything that uses its private API, behind which a session without a JVM could stand."""
