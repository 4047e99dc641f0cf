package oriel;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;

/**
 * Runs topologies in Kafka Streams. A line of stdin is a {@link TreeCase} if it is a JSON object;
 * else it is a {@link Case}, a windowed aggregation of one topic, whose answer is a line of stdout
 * with three parts, "|" between them: the rows of the store that can be read in the end, the
 * records that came out in order, and how many were dropped. The argument is the folder for the
 * state.
 */
public final class Peer {
  /** Undocumented switch: ms of wall clock between two looks for windows that have closed. */
  private static final String EMIT_INTERVAL =
      "__emit.interval.ms.kstreams.windowed.aggregation__";

  /** The same for records that an outer join found no partner for. */
  private static final String JOIN_EMIT_INTERVAL =
      "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__";

  private Peer() {}

  public static void main(String[] arguments) throws Exception {
    var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      System.out.println(
          line.startsWith("{")
              ? TreeCase.answer(line, properties(arguments[0]))
              : answer(Case.parse(line), arguments[0]));
    }
  }

  private static String answer(Case asked, String stateFolder) {
    var emitted = new ArrayList<String>();
    var topology = Aggregation.of(asked, emitted);
    try (var driver = new TopologyTestDriver(topology, properties(stateFolder))) {
      var text = Serdes.String().serializer();
      pipe(asked.tokens(), driver.createInputTopic(Aggregation.INPUT, text, text));
      var rows = String.join(" ", rows(asked, driver));
      return rows + "|" + String.join(" ", emitted) + "|" + dropped(driver);
    }
  }

  private static Properties properties(String stateFolder) {
    var properties = new Properties();
    properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "peer");
    properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
    properties.put(StreamsConfig.STATE_DIR_CONFIG, stateFolder);
    properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    // Every update is told, also the deletion of what is not there.
    properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0L);
    properties.put(EMIT_INTERVAL, 0L);
    properties.put(JOIN_EMIT_INTERVAL, 0L);
    return properties;
  }

  private static void pipe(List<String> tokens, TestInputTopic<String, String> topic) {
    for (int place = 0; place < tokens.size(); place++) {
      String[] parts = tokens.get(place).split(":");
      String value = parts.length > 2 ? null : Integer.toString(place + 1);
      topic.pipeInput(parts[0], value, Long.parseLong(parts[1]));
    }
  }

  private static List<String> rows(Case asked, TopologyTestDriver driver) {
    var found = new ArrayList<String>();
    switch (asked.kind()) {
      case "none" -> {
        var store = driver.<String, String>getTimestampedKeyValueStore(Aggregation.STORE);
        try (var rows = store.all()) {
          rows.forEachRemaining(
              row -> found.add(Token.of(row.key, row.value.timestamp(), row.value.value())));
        }
      }
      case "session" -> {
        var store = driver.<String, String>getSessionStore(Aggregation.STORE);
        try (var rows = store.fetch(null, null)) {
          rows.forEachRemaining(
              row -> found.add(Token.of(row.key, row.key.window().end(), row.value)));
        }
      }
      default -> {
        var store = driver.<String, String>getTimestampedWindowStore(Aggregation.STORE);
        try (var rows = store.all()) {
          rows.forEachRemaining(
              row -> found.add(Token.of(row.key, row.value.timestamp(), row.value.value())));
        }
      }
    }
    return found;
  }

  private static long dropped(TopologyTestDriver driver) {
    return driver.metrics().values().stream()
        .filter(metric -> metric.metricName().name().equals("dropped-records-total"))
        .mapToLong(metric -> ((Double) metric.metricValue()).longValue())
        .sum();
  }
}
