package oriel;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;

/**
 * What Kafka Streams makes of the examples of docs/reference/kafka-streams-differences.md that need more than
 * one aggregation of one topic. A line for each: its name, "=", and what came out, in order. A
 * record is TOPIC:TIME:VALUE, the topic's name if there is no value; all have one key.
 */
public final class Surprises {
  private static final Duration TEN = Duration.ofMillis(10);

  private Surprises() {}

  /** Builds the topology of an example, whose results are added to the list. */
  private interface Example {
    void build(StreamsBuilder builder, List<String> out);
  }

  public static void main(String[] arguments) {
    print("removed", Surprises::removed, "a:10", "a:15:x", "a:20:c");
    print("cogroup", Surprises::cogrouped, "b:10", "a:12");
    print("merge, a first", Surprises::merged, "a:20", "b:5");
    print("merge, b first", Surprises::merged, "b:5", "a:20");
    print("join, by turns", Surprises::joined, "a:0", "b:5", "a:20");
    print("join, a first", Surprises::joined, "a:0", "a:20", "b:5");
    print("punctuate", Surprises::punctuated, "a:1:first", "a:35:second");
  }

  private static void print(String name, Example example, String... records) {
    var out = new ArrayList<String>();
    var builder = new StreamsBuilder();
    example.build(builder, out);
    var properties = new Properties();
    properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "surprises");
    properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
    try (var driver = new TopologyTestDriver(builder.build(), properties)) {
      var text = Serdes.String().serializer();
      for (String record : records) {
        String[] parts = record.split(":");
        driver
            .createInputTopic(parts[0], text, text)
            .pipeInput("k", parts[parts.length > 2 ? 2 : 0], Long.parseLong(parts[1]));
      }
    }
    System.out.println(name + "=" + String.join(" ", out));
  }

  /** The value x removes the aggregate of the window. */
  private static void removed(StreamsBuilder builder, List<String> out) {
    var table =
        grouped(builder, "a")
            .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(TEN, Duration.ofMillis(100)))
            .aggregate(
                () -> "",
                (key, value, path) -> value.equals("x") ? null : path + value,
                Materialized.with(Serdes.String(), Serdes.String()));
    collect(table, out);
  }

  private static void cogrouped(StreamsBuilder builder, List<String> out) {
    var table =
        grouped(builder, "a")
            .<String>cogroup((key, value, path) -> path + value)
            .cogroup(grouped(builder, "b"), (key, value, path) -> path + value)
            .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(TEN, Duration.ofMillis(100)))
            .aggregate(() -> "", Materialized.with(Serdes.String(), Serdes.String()));
    collect(table, out);
  }

  private static void merged(StreamsBuilder builder, List<String> out) {
    var table =
        topic(builder, "a")
            .merge(topic(builder, "b"))
            .groupByKey()
            .windowedBy(TimeWindows.ofSizeWithNoGrace(TEN))
            .aggregate(
                () -> "",
                (key, value, path) -> path + value,
                Materialized.with(Serdes.String(), Serdes.String()));
    collect(table, out);
  }

  private static void joined(StreamsBuilder builder, List<String> out) {
    var serde = Serdes.String();
    topic(builder, "a")
        .join(
            topic(builder, "b"),
            (left, right) -> left + right,
            JoinWindows.ofTimeDifferenceWithNoGrace(TEN),
            StreamJoined.with(serde, serde, serde))
        .process(() -> row -> out.add(row.value() + "@" + row.timestamp()));
  }

  /** A punctuator of stream time every 10 ms. All calls are one result, so their order counts. */
  private static void punctuated(StreamsBuilder builder, List<String> out) {
    var calls = new StringBuilder();
    out.add("");
    topic(builder, "a")
        .process(
            () ->
                new Processor<String, String, Void, Void>() {
                  @Override
                  public void init(ProcessorContext<Void, Void> context) {
                    context.schedule(
                        TEN, PunctuationType.STREAM_TIME, time -> called("timer", time));
                  }

                  @Override
                  public void process(Record<String, String> row) {
                    called(row.value(), row.timestamp());
                  }

                  private void called(String name, long time) {
                    out.set(0, calls.append(name + "@" + time).toString());
                  }
                });
  }

  private static KStream<String, String> topic(StreamsBuilder builder, String name) {
    return builder.stream(name, Consumed.with(Serdes.String(), Serdes.String()));
  }

  private static KGroupedStream<String, String> grouped(StreamsBuilder builder, String name) {
    return topic(builder, name).groupByKey();
  }

  private static void collect(KTable<Windowed<String>, String> table, List<String> out) {
    table
        .toStream()
        .process(
            () ->
                row ->
                    out.add(
                        "[%d,%d]%s"
                            .formatted(
                                row.key().window().start(),
                                row.key().window().end(),
                                row.value())));
  }
}
