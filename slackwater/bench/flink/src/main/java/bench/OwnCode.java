package bench;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ReducingState;
import org.apache.flink.api.common.state.ReducingStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.tuple.Tuple5;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.triggers.Trigger;
import org.apache.flink.streaming.api.windowing.triggers.TriggerResult;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/** The functions of slackwater/bench/own_pipelines.py. Rows are (key, timestamp, value), results (key, start, end, n, total). */
final class OwnCode {
  static final int KEPT = 10;
  private static final int TOP = 3;
  private static final long MANY = 1000;

  private OwnCode() {}

  private abstract static class OfWindow
      extends ProcessWindowFunction<Tuple3<Long, Long, Long>, Tuple5<Long, Long, Long, Long, Long>, Long, TimeWindow> {
    @Override
    public void process(
        Long key, Context context, Iterable<Tuple3<Long, Long, Long>> rows, Collector<Tuple5<Long, Long, Long, Long, Long>> out) {
      List<Long> values = new ArrayList<>();
      rows.forEach(row -> values.add(row.f2));
      emit(values, (n, total) -> out.collect(Tuple5.of(key, context.window().getStart(), context.window().getEnd(), n, total)));
    }

    abstract void emit(List<Long> values, Result result);
  }

  private interface Result {
    void of(long n, long total);
  }

  /** How many rows a window has, and their lower median. */
  static class Median extends OfWindow {
    @Override
    void emit(List<Long> values, Result result) {
      Collections.sort(values);
      result.of(values.size(), values.get((values.size() - 1) / 2));
    }
  }

  /** How many of the greatest values count, and their sum. */
  static class Top extends OfWindow {
    @Override
    void emit(List<Long> values, Result result) {
      values.sort(Collections.reverseOrder());
      List<Long> greatest = values.subList(0, Math.min(TOP, values.size()));
      result.of(greatest.size(), greatest.stream().mapToLong(Long::longValue).sum());
    }
  }

  /** How many rows a window has, and the sum of their values. */
  static class Sum extends OfWindow {
    @Override
    void emit(List<Long> values, Result result) {
      result.of(values.size(), values.stream().mapToLong(Long::longValue).sum());
    }
  }

  /** Fires at the end of a window, for each late row, and whenever the window has MANY more rows. */
  static class AtEndOrMany extends Trigger<Tuple3<Long, Long, Long>, TimeWindow> {
    private final ReducingStateDescriptor<Long> descriptor = new ReducingStateDescriptor<>("count", Long::sum, Types.LONG);

    @Override
    public TriggerResult onElement(Tuple3<Long, Long, Long> row, long timestamp, TimeWindow window, TriggerContext context) throws Exception {
      if (window.maxTimestamp() <= context.getCurrentWatermark()) {
        return TriggerResult.FIRE;
      }
      context.registerEventTimeTimer(window.maxTimestamp());
      ReducingState<Long> count = context.getPartitionedState(descriptor);
      count.add(1L);
      if (count.get() < MANY) {
        return TriggerResult.CONTINUE;
      }
      count.clear();
      return TriggerResult.FIRE;
    }

    @Override
    public TriggerResult onEventTime(long timestamp, TimeWindow window, TriggerContext context) {
      return timestamp == window.maxTimestamp() ? TriggerResult.FIRE : TriggerResult.CONTINUE;
    }

    @Override
    public TriggerResult onProcessingTime(long timestamp, TimeWindow window, TriggerContext context) {
      return TriggerResult.CONTINUE;
    }

    @Override
    public void clear(TimeWindow window, TriggerContext context) {
      context.deleteEventTimeTimer(window.maxTimestamp());
      context.getPartitionedState(descriptor).clear();
    }
  }

  /** Counts and sums of tumbling windows, kept in state until a timer at the window's end. */
  static class WindowsByHand extends KeyedProcessFunction<Long, Tuple3<Long, Long, Long>, Tuple5<Long, Long, Long, Long, Long>> {
    private final long size;
    private transient MapState<Long, Tuple2<Long, Long>> windows;

    WindowsByHand(long size) {
      this.size = size;
    }

    @Override
    public void open(OpenContext context) {
      windows = getRuntimeContext().getMapState(new MapStateDescriptor<>("windows", Types.LONG, Types.TUPLE(Types.LONG, Types.LONG)));
    }

    @Override
    public void processElement(Tuple3<Long, Long, Long> row, Context context, Collector<Tuple5<Long, Long, Long, Long, Long>> out)
        throws Exception {
      long start = row.f1 - row.f1 % size;
      Tuple2<Long, Long> window = windows.get(start);
      if (window == null) {
        window = Tuple2.of(0L, 0L);
        context.timerService().registerEventTimeTimer(start + size - 1);
      }
      windows.put(start, Tuple2.of(window.f0 + 1, window.f1 + row.f2));
    }

    @Override
    public void onTimer(long timestamp, OnTimerContext context, Collector<Tuple5<Long, Long, Long, Long, Long>> out) throws Exception {
      long start = timestamp + 1 - size;
      Tuple2<Long, Long> window = windows.get(start);
      windows.remove(start);
      out.collect(Tuple5.of(context.getCurrentKey(), start, start + size, window.f0, window.f1));
    }
  }
}
