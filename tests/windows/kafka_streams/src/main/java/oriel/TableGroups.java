package oriel;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * Groups the rows of a table in Kafka Streams. A line of stdin is a log of one partition, a token a
 * record: KEY:TIME deletes a row, KEY:TIME:GROUP:NUMBER puts one there, whose group "-" is null. The
 * answer is a line of stdout with two parts, "|" between them: the rows of the store of counts and
 * those of the store of aggregates, each GROUP:TIME:VALUE. An aggregate tells of its calls; the
 * adder gives null for an 8 and the subtractor for a 0. The argument is the folder for the state.
 */
public final class TableGroups {
  private static final Serde<String> TEXT = Serdes.String();

  private TableGroups() {}

  public static void main(String[] arguments) throws Exception {
    var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      System.out.println(answer(line.trim(), arguments[0]));
    }
  }

  private static String answer(String log, String stateFolder) {
    var properties = new Properties();
    properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "table-groups");
    properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
    properties.put(StreamsConfig.STATE_DIR_CONFIG, stateFolder);
    try (var driver = new TopologyTestDriver(topology(), properties)) {
      var topic = driver.createInputTopic("rows", TEXT.serializer(), TEXT.serializer());
      for (String token : log.isEmpty() ? new String[0] : log.split(" ")) {
        String[] words = token.split(":");
        String row = words.length > 2 ? words[2] + ":" + words[3] : null;
        topic.pipeInput(words[0], row, Long.parseLong(words[1]));
      }
      return rows(driver, "counts") + "|" + rows(driver, "aggregates");
    }
  }

  private static Topology topology() {
    var builder = new StreamsBuilder();
    var grouped =
        builder.table("rows", Consumed.with(TEXT, TEXT))
            .groupBy((key, row) -> inGroup(row.split(":")), Grouped.with(TEXT, TEXT));
    grouped.count(Materialized.as("counts"));
    grouped.aggregate(
        () -> "0",
        (group, number, text) -> number.equals("8") ? null : text + "+" + number,
        (group, number, text) -> number.equals("0") ? null : text + "-" + number,
        Materialized.<String, String>as(
                Stores.inMemoryKeyValueStore("aggregates"))
            .withKeySerde(TEXT)
            .withValueSerde(TEXT));
    return builder.build();
  }

  private static KeyValue<String, String> inGroup(String[] row) {
    return KeyValue.pair(row[0].equals("-") ? null : row[0], row[1]);
  }

  private static String rows(TopologyTestDriver driver, String name) {
    List<String> found = new ArrayList<>();
    try (var rows = driver.<String, Object>getTimestampedKeyValueStore(name).all()) {
      rows.forEachRemaining(
          row -> found.add(row.key + ":" + row.value.timestamp() + ":" + row.value.value()));
    }
    return String.join(" ", found);
  }
}
