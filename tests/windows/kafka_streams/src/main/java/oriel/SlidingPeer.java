package oriel;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Runs sliding windows in Kafka Streams. A line of stdin is a case: time difference, grace, then
 * KEY:TIME tokens in arrival order. The value of a record is its place in the line. A window's
 * aggregate is the count and the sum of its members' places, and their list. A line of stdout is
 * the case's final rows: KEY:START:TIMESTAMP:COUNT:SUM:PLACE,PLACE,... tokens.
 */
public final class SlidingPeer {
  private SlidingPeer() {}

  public static void main(String[] arguments) throws Exception {
    var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      System.out.println(String.join(" ", rows(line.trim().split(" "))));
    }
  }

  private static TreeSet<String> rows(String[] words) {
    long difference = Long.parseLong(words[0]);
    long grace = Long.parseLong(words[1]);
    var builder = new StreamsBuilder();
    // Retention far beyond need: the default hides windows that are still open.
    var store =
        Materialized.<String, String, WindowStore<Bytes, byte[]>>as("windows")
            .withKeySerde(Serdes.String())
            .withValueSerde(Serdes.String())
            .withRetention(Duration.ofMillis(2 * difference + grace + 1_000_000_000L))
            .withCachingDisabled();
    builder.stream("input", Consumed.with(Serdes.String(), Serdes.String()))
        .groupByKey()
        .windowedBy(
            SlidingWindows.ofTimeDifferenceAndGrace(
                Duration.ofMillis(difference), Duration.ofMillis(grace)))
        .aggregate(() -> "0:0:", (key, place, row) -> withMember(row, place), store);
    var properties = new Properties();
    properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "peer");
    properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
    properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    var found = new TreeSet<String>();
    try (var driver = new TopologyTestDriver(builder.build(), properties)) {
      var topic =
          driver.createInputTopic(
              "input", Serdes.String().serializer(), Serdes.String().serializer());
      for (int place = 2; place < words.length; place++) {
        int colon = words[place].lastIndexOf(':');
        long time = Long.parseLong(words[place].substring(colon + 1));
        topic.pipeInput(words[place].substring(0, colon), Integer.toString(place - 2), time);
      }
      try (var rows = driver.getTimestampedWindowStore("windows").all()) {
        while (rows.hasNext()) {
          var row = rows.next();
          found.add(
              row.key.key() + ":" + row.key.window().start() + ":" + row.value.timestamp()
                  + ":" + row.value.value());
        }
      }
    }
    return found;
  }

  private static String withMember(String row, String place) {
    var parts = row.split(":", -1);
    long count = Long.parseLong(parts[0]) + 1;
    long sum = Long.parseLong(parts[1]) + Long.parseLong(place);
    return count + ":" + sum + ":" + parts[2] + place + ",";
  }
}
