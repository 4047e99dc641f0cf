package oriel;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.errors.StreamsException;

/**
 * A line of stdin that is a JSON object: {@code tree}, see {@link Tree}; and {@code log}, records
 * [TOPIC, KEY, VALUE, TIME] of one partition of each topic, as they arrive. The answer has what the
 * store holds in the end ({@code rows}) and what came out in order ({@code emitted}), both as
 * {@link Tree#told}, and what came to the aggregation ({@code arrived}); or Kafka's {@code error}.
 */
final class TreeCase {
  private TreeCase() {}

  static String answer(String line, Properties properties) throws IOException {
    JsonNode asked = Row.JSON.readTree(line);
    var arrived = new ArrayList<Object>();
    var emitted = new ArrayList<Object>();
    properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Row.Serde.class);
    try {
      var topology = Tree.topology(asked.get("tree"), arrived, emitted);
      try (var driver = new TopologyTestDriver(topology, properties)) {
        pipe(asked.get("log"), driver);
        if (Tree.writes(asked.get("tree"))) {
          return Row.JSON.writeValueAsString(
              Map.of("rows", List.of(), "emitted", written(driver), "arrived", arrived));
        }
        return Row.JSON.writeValueAsString(
            Map.of("rows", rows(driver), "emitted", emitted, "arrived", arrived));
      }
    } catch (StreamsException error) {
      Throwable cause = error.getCause() == null ? error : error.getCause();
      return Row.JSON.writeValueAsString(Map.of("error", cause.toString()));
    }
  }

  private static void pipe(JsonNode log, TopologyTestDriver driver) throws IOException {
    var topics = new HashMap<String, TestInputTopic<String, Row>>();
    for (JsonNode one : log) {
      var topic =
          topics.computeIfAbsent(
              one.get(0).asText(),
              name ->
                  driver.createInputTopic(
                      name, Serdes.String().serializer(), new Row.Serde().serializer()));
      String key = one.get(1).isNull() ? null : one.get(1).asText();
      Row value = one.get(2).isNull() ? null : Row.JSON.treeToValue(one.get(2), Row.class);
      topic.pipeInput(key, value, one.get(3).asLong());
    }
  }

  /** The records of the topic that the tree writes. */
  private static List<Object> written(TopologyTestDriver driver) {
    var serde = new Row.Serde();
    var topic =
        driver.createOutputTopic(
            Tree.OUT, Serdes.String().deserializer(), serde.deserializer());
    var found = new ArrayList<Object>();
    for (var record : topic.readRecordsToList()) {
      found.add(Tree.told(record.key(), record.timestamp(), record.value()));
    }
    return found;
  }

  /** What the store holds; nothing of windows that only come out when they have closed. */
  private static List<Object> rows(TopologyTestDriver driver) {
    var found = new ArrayList<Object>();
    var plain = driver.<String, Row>getTimestampedKeyValueStore(Tree.STORE);
    if (plain != null) {
      try (var rows = plain.all()) {
        rows.forEachRemaining(
            row -> found.add(Tree.told(row.key, row.value.timestamp(), row.value.value())));
      }
      return found;
    }
    var sessions = driver.<String, Row>getSessionStore(Tree.STORE);
    if (sessions != null) {
      try (var rows = sessions.fetch(null, null)) {
        rows.forEachRemaining(
            row -> found.add(Tree.told(row.key, row.key.window().end(), row.value)));
      }
      return found;
    }
    try (var rows = driver.<String, Row>getTimestampedWindowStore(Tree.STORE).all()) {
      rows.forEachRemaining(
          row -> found.add(Tree.told(row.key, row.value.timestamp(), row.value.value())));
    }
    return found;
  }
}
