package oriel;

import java.time.Duration;
import java.util.List;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/** The topology of a case: topic INPUT, grouped by key, aggregated in STORE. */
final class Aggregation {
  static final String INPUT = "input";
  static final String STORE = "store";

  private Aggregation() {}

  /** Every record that the aggregation forwards is put into {@code emitted} as a token. */
  static Topology of(Case asked, List<String> emitted) {
    var builder = new StreamsBuilder();
    var grouped =
        builder.stream(INPUT, Consumed.with(Serdes.String(), Serdes.String())).groupByKey();
    switch (asked.kind()) {
      case "none" -> plain(grouped, emitted);
      case "session" -> collect(asked, sessions(asked, grouped), emitted);
      default -> collect(asked, windows(asked, grouped), emitted);
    }
    return builder.build();
  }

  private static void plain(KGroupedStream<String, String> grouped, List<String> emitted) {
    var store = Aggregation.<KeyValueStore<Bytes, byte[]>>store().withCachingDisabled();
    grouped
        .aggregate(() -> Aggregate.INITIAL, Aggregate::add, store)
        .toStream()
        .process(
            () -> row -> emitted.add(Token.of(row.key(), row.timestamp(), row.value())));
  }

  private static KTable<Windowed<String>, String> windows(
      Case asked, KGroupedStream<String, String> grouped) {
    TimeWindowedKStream<String, String> windowed =
        asked.kind().equals("sliding")
            ? grouped.windowedBy(
                SlidingWindows.ofTimeDifferenceAndGrace(asked.length(), asked.grace()))
            : grouped.windowedBy(
                TimeWindows.ofSizeAndGrace(asked.length(), asked.grace())
                    .advanceBy(asked.advance()));
    return windowed
        .emitStrategy(strategy(asked))
        .aggregate(
            () -> Aggregate.INITIAL,
            Aggregate::add,
            Aggregation.<WindowStore<Bytes, byte[]>>store(asked.retention()));
  }

  private static KTable<Windowed<String>, String> sessions(
      Case asked, KGroupedStream<String, String> grouped) {
    return grouped
        .windowedBy(SessionWindows.ofInactivityGapAndGrace(asked.length(), asked.grace()))
        .emitStrategy(strategy(asked))
        .aggregate(
            () -> Aggregate.INITIAL,
            Aggregate::add,
            Aggregate::merge,
            Aggregation.<SessionStore<Bytes, byte[]>>store(asked.retention()));
  }

  private static void collect(
      Case asked, KTable<Windowed<String>, String> table, List<String> emitted) {
    var results =
        asked.emit().equals("suppress")
            ? table.suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
            : table;
    results
        .toStream()
        .process(
            () -> row -> emitted.add(Token.of(row.key(), row.timestamp(), row.value())));
  }

  private static EmitStrategy strategy(Case asked) {
    return asked.emit().equals("close")
        ? EmitStrategy.onWindowClose()
        : EmitStrategy.onWindowUpdate();
  }

  private static <S extends StateStore> Materialized<String, String, S> store(Duration retention) {
    return Aggregation.<S>store().withRetention(retention).withCachingDisabled();
  }

  private static <S extends StateStore> Materialized<String, String, S> store() {
    return Materialized.<String, String, S>as(STORE)
        .withKeySerde(Serdes.String())
        .withValueSerde(Serdes.String());
  }
}
