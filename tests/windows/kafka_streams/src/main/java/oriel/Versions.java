package oriel;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.VersionedKeyQuery;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.VersionedKeyValueStore;

/**
 * Reads versions of a table in Kafka Streams (KIP-960, KIP-968). A line of stdin is HISTORY, then
 * words: KEY:TIME deletes a row, KEY:TIME:VALUE puts one there, and ?KEY:FROM:TO asks for the
 * versions of a time range, and for the version as of FROM. The answer to each question is a word of
 * a line of stdout: the version as of FROM and the versions of the range, each VALUE/TIME/END with
 * "," between them. The argument is the folder for the state.
 */
public final class Versions {
  private static final Serde<String> TEXT = Serdes.String();

  private Versions() {}

  public static void main(String[] arguments) throws Exception {
    var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      System.out.println(answer(line.trim().split(" "), arguments[0]));
    }
  }

  private static String answer(String[] words, String stateFolder) {
    var properties = new Properties();
    properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "versions");
    properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
    properties.put(StreamsConfig.STATE_DIR_CONFIG, stateFolder);
    var builder = new StreamsBuilder();
    var history = Duration.ofMillis(Long.parseLong(words[0]));
    builder.table(
        "rows",
        Consumed.with(TEXT, TEXT),
        Materialized.as(Stores.persistentVersionedKeyValueStore("versions", history)));
    List<String> found = new ArrayList<>();
    try (var driver = new TopologyTestDriver(builder.build(), properties)) {
      var topic = driver.createInputTopic("rows", TEXT.serializer(), TEXT.serializer());
      VersionedKeyValueStore<String, String> store = driver.getVersionedKeyValueStore("versions");
      for (int place = 1; place < words.length; place++) {
        String[] parts = words[place].split(":");
        if (words[place].startsWith("?")) {
          long from = Long.parseLong(parts[1]);
          found.add(versions(store, parts[0].substring(1), from, Long.parseLong(parts[2])));
        } else {
          topic.pipeInput(
              parts[0], parts.length > 2 ? parts[2] : null, Long.parseLong(parts[1]));
        }
      }
    }
    return String.join(" ", found);
  }

  private static String versions(
      VersionedKeyValueStore<String, String> store, String key, long from, long to) {
    var config = new QueryConfig(false);
    var asOf = VersionedKeyQuery.<String, String>withKey(key).asOf(Instant.ofEpochMilli(from));
    var one = store.query(asOf, PositionBound.unbounded(), config).getResult();
    var words = new ArrayList<String>();
    words.add(one == null ? "-" : one.value() + "/" + one.timestamp());
    var range =
        MultiVersionedKeyQuery.<String, String>withKey(key)
            .fromTime(Instant.ofEpochMilli(from))
            .toTime(Instant.ofEpochMilli(to))
            .withAscendingTimestamps();
    try (var rows = store.query(range, PositionBound.unbounded(), config).getResult()) {
      rows.forEachRemaining(
          row ->
              words.add(
                  row.value() + "/" + row.timestamp() + "/"
                      + row.validTo().map(Object::toString).orElse("-")));
    }
    return String.join(",", words);
  }
}
