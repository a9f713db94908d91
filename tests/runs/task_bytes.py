"""A transport in threads whose tasks travel as bytes, as they do to other processes."""

import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer

from slackwater.engine.transport.in_process import InThreads, NumberedTask


class AsOnACluster(InThreads):
    """Threads that get their tasks as bytes, as other processes do."""

    def each(self, task: NumberedTask, count: int) -> list[pa.Table]:
        pickles = CloudPickleSerializer()
        return super().each(pickles.loads(pickles.dumps(task)), count)
