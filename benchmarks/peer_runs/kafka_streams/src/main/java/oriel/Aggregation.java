package oriel;

import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * The topology: a topic of readings, grouped by key, count and sum in a store of RocksDB with cache
 * and changelog, all as Kafka Streams makes it unless told otherwise.
 */
final class Aggregation {
  static final String STORE = "store";

  private Aggregation() {}

  /** Counts in {@code processed} what goes into the aggregation. */
  static Topology of(Asked asked, LongAdder processed) {
    var builder = new StreamsBuilder();
    var grouped =
        builder.stream(asked.topic(), Consumed.with(Serdes.String(), Reading.serde()))
            .peek((key, reading) -> processed.increment())
            .groupByKey();
    if (asked.kind().equals("session")) {
      grouped
          .windowedBy(SessionWindows.ofInactivityGapAndGrace(asked.length(), asked.grace()))
          .aggregate(
              () -> Sum.NOTHING,
              Sum::add,
              Sum::merge,
              Aggregation.<SessionStore<Bytes, byte[]>>store());
    } else {
      windowed(asked, grouped)
          .aggregate(
              () -> Sum.NOTHING, Sum::add, Aggregation.<WindowStore<Bytes, byte[]>>store());
    }
    return builder.build();
  }

  private static TimeWindowedKStream<String, Reading> windowed(
      Asked asked, KGroupedStream<String, Reading> grouped) {
    if (asked.kind().equals("sliding")) {
      return grouped.windowedBy(
          SlidingWindows.ofTimeDifferenceAndGrace(asked.length(), asked.grace()));
    }
    var windows = TimeWindows.ofSizeAndGrace(asked.length(), asked.grace());
    return grouped.windowedBy(
        asked.kind().equals("hopping") ? windows.advanceBy(asked.advance()) : windows);
  }

  private static <S extends StateStore> Materialized<String, Sum, S> store() {
    return Materialized.<String, Sum, S>as(STORE)
        .withKeySerde(Serdes.String())
        .withValueSerde(Sum.serde());
  }
}
