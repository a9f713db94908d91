package bench;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.atomic.LongAdder;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.tuple.Tuple5;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.WindowedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.legacy.RichSinkFunction;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.evictors.CountEvictor;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/**
 * Counts and sums windows over rows held in memory; one request a line on standard input, one JSON answer a line on standard output.
 *
 * <p>Request: file, rows, kind (tumbling, sliding, session), size or gap, slide, lateness, bound (ms), parallelism, function (of
 * OwnCode, or "aggregate"). The file holds the
 * columns key, timestamp, value and tick one after the other, as little-endian longs in order of arrival.
 */
public class Windows {
  private static String loaded = "";
  private static long[][] columns;
  private static final LongAdder results = new LongAdder();

  /** Each subtask takes every p-th row, and emits a watermark after each tick. */
  public static class Rows extends RichParallelSourceFunction<Tuple3<Long, Long, Long>> {
    private final long bound;
    private volatile boolean running = true;

    Rows(long bound) {
      this.bound = bound;
    }

    @Override
    public void run(SourceContext<Tuple3<Long, Long, Long>> context) {
      int subtasks = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
      int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
      long[] keys = columns[0], timestamps = columns[1], values = columns[2], ticks = columns[3];
      long greatest = Long.MIN_VALUE, tick = keys.length == 0 ? 0 : ticks[0];
      int i = 0;
      while (running && i < keys.length) {
        synchronized (context.getCheckpointLock()) {
          for (int end = Math.min(keys.length, i + 1000); i < end; i++) {
            if (ticks[i] != tick) {
              context.emitWatermark(new Watermark(greatest - bound - 1));
              tick = ticks[i];
            }
            greatest = Math.max(greatest, timestamps[i]);
            if (i % subtasks == subtask) {
              context.collectWithTimestamp(Tuple3.of(keys[i], timestamps[i], values[i]), timestamps[i]);
            }
          }
        }
      }
      context.emitWatermark(new Watermark(greatest - bound - 1));
    }

    @Override
    public void cancel() {
      running = false;
    }
  }

  /** Count and sum of the values. */
  public static class CountAndSum implements AggregateFunction<Tuple3<Long, Long, Long>, Tuple2<Long, Long>, Tuple2<Long, Long>> {
    @Override
    public Tuple2<Long, Long> createAccumulator() {
      return Tuple2.of(0L, 0L);
    }

    @Override
    public Tuple2<Long, Long> add(Tuple3<Long, Long, Long> row, Tuple2<Long, Long> accumulator) {
      accumulator.f0++;
      accumulator.f1 += row.f2;
      return accumulator;
    }

    @Override
    public Tuple2<Long, Long> getResult(Tuple2<Long, Long> accumulator) {
      return accumulator;
    }

    @Override
    public Tuple2<Long, Long> merge(Tuple2<Long, Long> a, Tuple2<Long, Long> b) {
      a.f0 += b.f0;
      a.f1 += b.f1;
      return a;
    }
  }

  /** Adds key and window to a result. */
  public static class WithWindow extends ProcessWindowFunction<Tuple2<Long, Long>, Tuple5<Long, Long, Long, Long, Long>, Long, TimeWindow> {
    @Override
    public void process(Long key, Context context, Iterable<Tuple2<Long, Long>> found, Collector<Tuple5<Long, Long, Long, Long, Long>> out) {
      Tuple2<Long, Long> result = found.iterator().next();
      out.collect(Tuple5.of(key, context.window().getStart(), context.window().getEnd(), result.f0, result.f1));
    }
  }

  /** Counts results. */
  public static class Count extends RichSinkFunction<Tuple5<Long, Long, Long, Long, Long>> {
    private long seen;

    @Override
    public void invoke(Tuple5<Long, Long, Long, Long, Long> result, Context context) {
      seen++;
    }

    @Override
    public void close() {
      results.add(seen);
    }
  }

  private static void load(String file, int rows) throws Exception {
    if (loaded.equals(file)) {
      return;
    }
    columns = new long[4][rows];
    try (FileChannel channel = FileChannel.open(Path.of(file))) {
      for (int i = 0; i < 4; i++) {
        long length = (long) rows * Long.BYTES;
        channel.map(FileChannel.MapMode.READ_ONLY, i * length, length).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer().get(columns[i]);
      }
    }
    loaded = file;
  }

  private static WindowedStream<Tuple3<Long, Long, Long>, Long, TimeWindow> windows(
      KeyedStream<Tuple3<Long, Long, Long>, Long> keyed, String kind, Duration size, Duration slide) {
    switch (kind) {
      case "session":
        return keyed.window(EventTimeSessionWindows.withGap(size));
      case "sliding":
        return keyed.window(SlidingEventTimeWindows.of(size, slide));
      default:
        return keyed.window(TumblingEventTimeWindows.of(size));
    }
  }

  private static DataStream<Tuple5<Long, Long, Long, Long, Long>> results(
      KeyedStream<Tuple3<Long, Long, Long>, Long> keyed, String function, String kind, Duration size, Duration slide, Duration lateness) {
    TypeInformation<Tuple2<Long, Long>> pair = Types.TUPLE(Types.LONG, Types.LONG);
    TypeInformation<Tuple5<Long, Long, Long, Long, Long>> result = Types.TUPLE(Types.LONG, Types.LONG, Types.LONG, Types.LONG, Types.LONG);
    if (function.equals("timers")) {
      return keyed.process(new OwnCode.WindowsByHand(size.toMillis()), result);
    }
    WindowedStream<Tuple3<Long, Long, Long>, Long, TimeWindow> windows = windows(keyed, kind, size, slide).allowedLateness(lateness);
    switch (function) {
      case "median":
        return windows.process(new OwnCode.Median(), result);
      case "top":
        return windows.process(new OwnCode.Top(), result);
      case "evictor":
        return windows.evictor(CountEvictor.of(OwnCode.KEPT)).process(new OwnCode.Sum(), result);
      case "trigger":
        windows = windows.trigger(new OwnCode.AtEndOrMany());
        // fall through
      default:
        return windows.aggregate(new CountAndSum(), new WithWindow(), pair, pair, result);
    }
  }

  private static String answer(String[] request) throws Exception {
    load(request[0], Integer.parseInt(request[1]));
    results.reset();
    Configuration settings = new Configuration();
    settings.set(StateBackendOptions.STATE_BACKEND, "hashmap");
    settings.set(RestOptions.BIND_PORT, "0");
    StreamExecutionEnvironment flink = StreamExecutionEnvironment.createLocalEnvironment(Integer.parseInt(request[7]), settings);
    flink.getConfig().enableObjectReuse();
    KeyedStream<Tuple3<Long, Long, Long>, Long> keyed =
        flink
            .addSource(new Rows(Long.parseLong(request[6])))
            .returns(Types.TUPLE(Types.LONG, Types.LONG, Types.LONG))
            .keyBy(row -> row.f0, Types.LONG);
    Duration size = Duration.ofMillis(Long.parseLong(request[3])), slide = Duration.ofMillis(Long.parseLong(request[4]));
    results(keyed, request[8], request[2], size, slide, Duration.ofMillis(Long.parseLong(request[5]))).addSink(new Count());
    var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    long cpu = system.getProcessCpuTime(), start = System.nanoTime();
    flink.execute();
    double wall = (System.nanoTime() - start) / 1e9, used = (system.getProcessCpuTime() - cpu) / 1e9;
    return String.format(Locale.ROOT, "{\"wall_s\": %.3f, \"cpu_s\": %.2f, \"panes\": %d}", wall, used, results.sum());
  }

  public static void main(String[] arguments) throws Exception {
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      System.out.println(answer(line.split(" ")));
    }
    System.exit(0);
  }
}
