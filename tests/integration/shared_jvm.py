"""A JVM that one driver after another has its Spark in, as under spark-submit, where the JVM is there before
the driver. A driver in it waits for no start of a JVM, and its tasks for no compiler.
"""

from functools import cache

from slackwater.runtime.session import session


class SharedJvm:
    """A JVM of this process; it ends with it.

    Attributes:
        variables: of the environment of a driver that is to have its Spark here.
    """

    def __init__(self) -> None:
        spark = session("tests")
        self._gateway = spark.sparkContext._gateway
        parameters = self._gateway.java_parameters
        self.variables = {
            "PYSPARK_GATEWAY_PORT": str(parameters.port),
            "PYSPARK_GATEWAY_SECRET": parameters.auth_token,
            "PYSPARK_PYTHON": spark.sparkContext.pythonExec,
        }
        spark.stop()

    def end_application(self) -> None:
        """Stop the Spark of a driver that was killed, as a JVM that ends with its driver does."""
        abandoned_session = self._gateway.jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession()
        if abandoned_session.isDefined():
            abandoned_session.get().stop()


@cache
def shared_jvm() -> SharedJvm:
    """The one of this process."""
    return SharedJvm()
