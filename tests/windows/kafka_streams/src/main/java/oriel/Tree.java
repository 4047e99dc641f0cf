package oriel;

import static java.util.Map.entry;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/**
 * A topology given as a tree of operations: a node is an object with its operation's name, {@code
 * op}, its arguments, and the nodes that it goes on from. An operation is one entry of {@link
 * #STREAMS}, {@link #TABLES} or {@link #STORES}, and one of the same name in operations.py. {@code to}
 * writes a stream to the topic {@link #OUT} instead.
 */
final class Tree {
  static final String STORE = "store";
  static final String OUT = "out";

  private static final ValueJoiner<Row, Row, Row> SIDE_BY_SIDE =
      (left, right) -> {
        var both = left == null ? new Row() : new Row(left);
        both.putAll(right == null ? new Row() : right);
        return both;
      };

  private static final Map<String, BiFunction<Tree, JsonNode, KStream<String, Row>>> STREAMS =
      Map.ofEntries(
          entry("stream", (tree, node) -> tree.builder.stream(text(node, "topic"))),
          entry("filter", (tree, node) -> tree.stream(node).filter(
              (key, value) -> Expressions.holds(node.get("condition"), key, value))),
          entry("filter_not", (tree, node) -> tree.stream(node).filterNot(
              (key, value) -> Expressions.holds(node.get("condition"), key, value))),
          entry("map_values", (tree, node) -> tree.stream(node).mapValues(
              (key, value) -> Expressions.values(node.get("columns"), key, value))),
          entry("select_key", (tree, node) -> tree.stream(node).selectKey(
              (key, value) -> Expressions.key(node.get("key"), key, value))),
          entry("map", (tree, node) -> tree.stream(node).map(
              (key, value) -> new KeyValue<>(
                  Expressions.key(node.get("key"), key, value),
                  Expressions.values(node.get("columns"), key, value)))),
          entry("flat_map_values", (tree, node) -> tree.stream(node).flatMapValues(
              (key, value) -> Expressions.elements(node, value))),
          entry("flat_map", (tree, node) -> tree.stream(node).flatMap(
              (key, value) -> Expressions.keyedElements(node, key, value))),
          entry("merge", (tree, node) -> tree.left(node).merge(tree.right(node))),
          entry("branch", (tree, node) -> tree.branch(node)),
          entry("merged_branches", (tree, node) -> {
            var branches = tree.branches(node);
            return branches.get("0").merge(branches.get("1"));
          }),
          entry("join_streams", (tree, node) -> tree.joinedStreams(node)),
          entry("join_table", (tree, node) -> {
            var left = tree.left(node);
            var table = tree.table(node.get("right"));
            Joined<String, Row, Row> joined =
                Joined.with(Serdes.String(), new Row.Serde(), new Row.Serde());
            if (node.has("grace")) {
              joined = joined.withGracePeriod(ms(node, "grace"));
            }
            return text(node, "how").equals("inner")
                ? left.join(table, SIDE_BY_SIDE, joined)
                : left.leftJoin(table, SIDE_BY_SIDE, joined);
          }),
          entry("join_global", (tree, node) -> {
            var left = tree.left(node);
            GlobalKTable<String, Row> table = tree.builder.globalTable(text(node, "topic"));
            KeyValueMapper<String, Row, String> rowKey =
                (key, value) -> Expressions.key(node.get("key"), key, value);
            return text(node, "how").equals("inner")
                ? left.join(table, rowKey, SIDE_BY_SIDE)
                : left.leftJoin(table, rowKey, SIDE_BY_SIDE);
          }),
          entry("to_stream", (tree, node) -> tree.table(node.get("input")).toStream()),
          entry("rows_of", (tree, node) -> tree.rowsOf(node.get("input"))));

  private static final Map<String, BiFunction<Tree, JsonNode, KTable<String, Row>>> TABLES =
      Map.ofEntries(
          entry("table", (tree, node) -> tree.builder.table(text(node, "topic"))),
          entry("versioned_table", (tree, node) -> tree.builder.table(
              text(node, "topic"),
              Materialized.as(Stores.persistentVersionedKeyValueStore(
                  "versioned-" + text(node, "topic"), ms(node, "history"))))),
          entry("filter", (tree, node) -> tree.table(node.get("input")).filter(
              (key, value) -> Expressions.holds(node.get("condition"), key, value))),
          entry("filter_not", (tree, node) -> tree.table(node.get("input")).filterNot(
              (key, value) -> Expressions.holds(node.get("condition"), key, value))),
          entry("map_values", (tree, node) -> tree.table(node.get("input")).mapValues(
              (key, value) -> Expressions.values(node.get("columns"), key, value))),
          entry("to_table", (tree, node) -> tree.stream(node).toTable()),
          entry("aggregated", (tree, node) -> tree.aggregatedTable(node.get("input"))),
          entry("join_tables", (tree, node) -> {
            var left = tree.table(node.get("left"));
            var right = tree.table(node.get("right"));
            return switch (text(node, "how")) {
              case "inner" -> left.join(right, SIDE_BY_SIDE);
              case "left" -> left.leftJoin(right, SIDE_BY_SIDE);
              default -> left.outerJoin(right, SIDE_BY_SIDE);
            };
          }),
          entry("join_by_foreign_key", (tree, node) -> {
            var left = tree.table(node.get("left"));
            var right = tree.table(node.get("right"));
            BiFunction<String, Row, String> foreignKey =
                (key, value) -> Expressions.key(node.get("key"), key, value);
            return text(node, "how").equals("inner")
                ? left.join(right, foreignKey, SIDE_BY_SIDE)
                : left.leftJoin(right, foreignKey, SIDE_BY_SIDE);
          }));

  private static final Map<String, BiFunction<Tree, JsonNode, KStream<?, Row>>> STORES =
      Map.ofEntries(
          entry("materialize", (tree, node) -> tree.table(node.get("input"))
              .mapValues(row -> row, Tree.<KeyValueStore<Bytes, byte[]>>store(node)).toStream()),
          entry("group_table", (tree, node) -> tree.groupedTable(node)),
          entry("reduce", (tree, node) -> tree.reduced(node)),
          entry("aggregate", (tree, node) -> tree.aggregated(node)),
          entry("join_aggregates", (tree, node) -> tree.joinedAggregates(node)));

  private final StreamsBuilder builder = new StreamsBuilder();
  private final List<Object> arrived;
  private int groupings;
  /** How many aggregations that others read are being built. */
  private int inFront;

  private Tree(List<Object> arrived) {
    this.arrived = arrived;
  }

  /** Whether records of a stream are written, and there is no store. */
  static boolean writes(JsonNode root) {
    return text(root, "op").equals("to");
  }

  /** Every record that comes to the last aggregation is put into {@code arrived}. */
  static Topology topology(JsonNode root, List<Object> arrived, List<Object> emitted) {
    var tree = new Tree(arrived);
    if (writes(root)) {
      tree.stream(root).to(OUT, Produced.with(Serdes.String(), new Row.Serde()));
      return tree.builder.build();
    }
    STORES
        .get(text(root, "op"))
        .apply(tree, root)
        .process(() -> row -> emitted.add(told(row.key(), row.timestamp(), row.value())));
    return tree.builder.build();
  }

  /** A row as the answer has it: [key, start, end, timestamp, value]; no windows are [0, 0]. */
  static List<Object> told(Object place, long timestamp, Row value) {
    var told = new ArrayList<Object>();
    if (place instanceof Windowed<?> windowed) {
      told.addAll(List.of(windowed.key(), windowed.window().start(), windowed.window().end()));
    } else {
      told.addAll(Arrays.asList(place, 0, 0));
    }
    told.add(timestamp);
    told.add(value);
    return told;
  }

  private KStream<String, Row> left(JsonNode node) {
    return streamOf(node.get("left"));
  }

  private KStream<String, Row> right(JsonNode node) {
    return streamOf(node.get("right"));
  }

  /** The stream that an operation of one stream goes on from. */
  private KStream<String, Row> stream(JsonNode node) {
    return streamOf(node.get("input"));
  }

  private KStream<String, Row> streamOf(JsonNode node) {
    return STREAMS.get(text(node, "op")).apply(this, node);
  }

  private KTable<String, Row> table(JsonNode node) {
    return TABLES.get(text(node, "op")).apply(this, node);
  }

  private KStream<String, Row> branch(JsonNode node) {
    return branches(node).get(text(node, "take"));
  }

  /** The branches by the places of their conditions; the default one by their number. */
  private Map<String, KStream<String, Row>> branches(JsonNode node) {
    var split = stream(node).split();
    var found = new HashMap<String, KStream<String, Row>>();
    int place = 0;
    for (JsonNode condition : node.get("conditions")) {
      String name = Integer.toString(place++);
      split =
          split.branch(
              (key, value) -> Expressions.holds(condition, key, value),
              Branched.withConsumer(branch -> found.put(name, branch)));
    }
    String rest = Integer.toString(place);
    split.defaultBranch(Branched.withConsumer(branch -> found.put(rest, branch)));
    return found;
  }

  private KStream<String, Row> joinedStreams(JsonNode node) {
    var before = ms(node, "before");
    var after = ms(node, "after");
    // The greater first: before + after must not be negative at any time.
    var greater = before.compareTo(after) > 0 ? before : after;
    var windows =
        JoinWindows.ofTimeDifferenceAndGrace(greater, ms(node, "grace"))
            .before(before)
            .after(after);
    var left = left(node);
    var right = right(node);
    return switch (text(node, "how")) {
      case "inner" -> left.join(right, SIDE_BY_SIDE, windows);
      case "left" -> left.leftJoin(right, SIDE_BY_SIDE, windows);
      default -> left.outerJoin(right, SIDE_BY_SIDE, windows);
    };
  }

  private KGroupedStream<String, Row> grouped(JsonNode input) {
    var stream = streamOf(input.get("input"));
    JsonNode key = input.get("key");
    var noted = inFront > 0 ? stream : stream.processValues(() -> new Noting(arrived, key));
    // Without names the repartition topics of a cogroup's streams would have one.
    Grouped<String, Row> named = Grouped.as("grouped-" + groupings++);
    return key.isNull()
        ? noted.groupByKey(named)
        : noted.groupBy((old, value) -> Expressions.key(key, old, value), named);
  }

  /** The final rows of an aggregation in front, with their windows as columns. */
  @SuppressWarnings("unchecked")
  private KStream<String, Row> rowsOf(JsonNode node) {
    inFront++;
    var rows = STORES.get(text(node, "op")).apply(this, node);
    inFront--;
    return rows.map(
        (place, row) -> {
          if (!(place instanceof Windowed<?> windowed)) {
            return new KeyValue<>((String) place, row);
          }
          if (row == null) {
            return new KeyValue<>((String) windowed.key(), null);
          }
          var value = new Row(row);
          value.put("window_start_ms", windowed.window().start());
          value.put("window_end_ms", windowed.window().end());
          return new KeyValue<>((String) windowed.key(), value);
        });
  }

  private KStream<?, Row> groupedTable(JsonNode node) {
    var grouped =
        table(node.get("input"))
            .groupBy(
                (key, value) ->
                    new KeyValue<>(Expressions.key(node.get("key"), key, value), value));
    if (text(node, "how").equals("fold")) {
      return behind(node, grouped.aggregate(
          () -> new Row().with("text", "0"),
          (key, value, row) -> RowAggregation.told(row, value, "+"),
          (key, value, row) -> RowAggregation.told(row, value, "-"),
          Tree.<KeyValueStore<Bytes, byte[]>>store(node)));
    }
    return behind(node, grouped.aggregate(
        Row::new,
        (key, value, row) -> RowAggregation.net(row, value, 1),
        (key, value, row) -> RowAggregation.net(row, value, -1),
        Tree.<KeyValueStore<Bytes, byte[]>>store(node)));
  }

  private KStream<?, Row> reduced(JsonNode node) {
    var grouped = grouped(node.get("inputs").get(0));
    var windows = node.get("windows");
    return switch (text(windows, "kind")) {
      case "none" ->
          behind(node, grouped
              .reduce(RowAggregation::reduced, Tree.<KeyValueStore<Bytes, byte[]>>store(node)));
      case "session" ->
          behind(node, grouped.windowedBy(sessions(windows)).emitStrategy(emit(node))
              .reduce(RowAggregation::reduced, retained(node)));
      case "sliding" ->
          behind(node, grouped.windowedBy(sliding(windows)).emitStrategy(emit(node))
              .reduce(RowAggregation::reduced, retained(node)));
      default ->
          behind(node, grouped.windowedBy(time(windows)).emitStrategy(emit(node))
              .reduce(RowAggregation::reduced, retained(node)));
    };
  }

  private KStream<?, Row> aggregated(JsonNode node) {
    return node.get("inputs").size() == 1 ? aggregatedOne(node) : cogrouped(node);
  }

  private KStream<?, Row> aggregatedOne(JsonNode node) {
    var input = node.get("inputs").get(0);
    var grouped = grouped(input);
    var windows = node.get("windows");
    var how = RowAggregation.BY_NAME.get(text(node, "how"));
    var add = how.adder().of(0, input.get("columns"));
    return switch (text(windows, "kind")) {
      case "none" ->
          behind(node, grouped
              .aggregate(how.initializer(), add, Tree.<KeyValueStore<Bytes, byte[]>>store(node)));
      case "session" ->
          behind(node, grouped.windowedBy(sessions(windows)).emitStrategy(emit(node))
              .aggregate(how.initializer(), add, how.merger(), retained(node)));
      case "sliding" ->
          behind(node, grouped.windowedBy(sliding(windows)).emitStrategy(emit(node))
              .aggregate(how.initializer(), add, retained(node)));
      default ->
          behind(node, grouped.windowedBy(time(windows)).emitStrategy(emit(node))
              .aggregate(how.initializer(), add, retained(node)));
    };
  }

  /** An aggregation without windows, as a table for further joins. */
  private KTable<String, Row> aggregatedTable(JsonNode node) {
    inFront++;
    var grouped = grouped(node.get("inputs").get(0));
    inFront--;
    var how = RowAggregation.BY_NAME.get(text(node, "how"));
    var add = how.adder().of(0, node.get("inputs").get(0).get("columns"));
    return grouped.aggregate(
        how.initializer(), add, Tree.<KeyValueStore<Bytes, byte[]>>store(node));
  }

  private KStream<?, Row> cogrouped(JsonNode node) {
    var how = RowAggregation.BY_NAME.get(text(node, "how"));
    var windows = node.get("windows");
    var first = node.get("inputs").get(0);
    var all = grouped(first).cogroup(how.adder().of(0, first.get("columns")));
    for (int number = 1; number < node.get("inputs").size(); number++) {
      var input = node.get("inputs").get(number);
      all = all.cogroup(grouped(input), how.adder().of(number, input.get("columns")));
    }
    return switch (text(windows, "kind")) {
      case "none" ->
          behind(node, all
              .aggregate(how.initializer(), Tree.<KeyValueStore<Bytes, byte[]>>store(node)));
      case "session" ->
          behind(node, all.windowedBy(sessions(windows))
              .aggregate(how.initializer(), how.merger(), retained(node)));
      case "sliding" ->
          behind(node, all.windowedBy(sliding(windows))
              .aggregate(how.initializer(), retained(node)));
      default ->
          behind(node, all.windowedBy(time(windows)).aggregate(how.initializer(), retained(node)));
    };
  }

  /** Two aggregations by the same time windows or by none, joined by key and window. */
  private KStream<?, Row> joinedAggregates(JsonNode node) {
    var how = RowAggregation.BY_NAME.get("columns");
    var grouped = new ArrayList<KGroupedStream<String, Row>>();
    var adders = new ArrayList<Aggregator<String, Row, Row>>();
    for (JsonNode input : node.get("inputs")) {
      adders.add(how.adder().of(grouped.size(), input.get("columns")));
      grouped.add(grouped(input));
    }
    var windows = node.get("windows");
    if (text(windows, "kind").equals("none")) {
      return joined(
          node,
          grouped.get(0).aggregate(how.initializer(), adders.get(0), unnamed()),
          grouped.get(1).aggregate(how.initializer(), adders.get(1), unnamed()));
    }
    var retention = ms(windows, "retention");
    return joined(
        node,
        grouped.get(0).windowedBy(time(windows)).aggregate(
            how.initializer(), adders.get(0),
            Tree.<WindowStore<Bytes, byte[]>>unnamed().withRetention(retention)),
        grouped.get(1).windowedBy(time(windows)).aggregate(
            how.initializer(), adders.get(1),
            Tree.<WindowStore<Bytes, byte[]>>unnamed().withRetention(retention)));
  }

  private static <S extends StateStore> Materialized<String, Row, S> unnamed() {
    return Materialized.<String, Row, S>with(Serdes.String(), new Row.Serde())
        .withCachingDisabled();
  }

  private static <K> KStream<K, Row> joined(
      JsonNode node, KTable<K, Row> left, KTable<K, Row> right) {
    Materialized<K, Row, KeyValueStore<Bytes, byte[]>> kept = Materialized.as(STORE);
    kept = kept.withKeySerde(keys(node)).withValueSerde(new Row.Serde()).withCachingDisabled();
    var table =
        switch (text(node, "how")) {
          case "inner" -> left.join(right, SIDE_BY_SIDE, kept);
          case "left" -> left.leftJoin(right, SIDE_BY_SIDE, kept);
          default -> left.outerJoin(right, SIDE_BY_SIDE, kept);
        };
    return table.toStream();
  }

  /** The rows of an aggregation with the steps behind it; suppress is in front of them or last. */
  private static <K> KStream<K, Row> behind(JsonNode node, KTable<K, Row> table) {
    var steps = node.path("behind");
    boolean suppresses = node.path("emit").asText().equals("suppress");
    boolean isLast = node.path("suppress").asText().equals("last");
    var rows = suppresses && !isLast ? closed(table) : table;
    for (int place = 0; place < steps.size(); place++) {
      var step = steps.get(place);
      // The last one's table is the store: aggregations by windows have one by key and window.
      Materialized<K, Row, KeyValueStore<Bytes, byte[]>> kept =
          Materialized.as(nameOf(node) + (place == steps.size() - 1 ? "" : "-behind-" + place));
      kept = kept.withKeySerde(keys(node)).withValueSerde(new Row.Serde()).withCachingDisabled();
      rows = switch (text(step, "op")) {
        case "filter" -> rows.filter(
            (key, value) -> Expressions.holds(step.get("condition"), key, value), kept);
        case "filter_not" -> rows.filterNot(
            (key, value) -> Expressions.holds(step.get("condition"), key, value), kept);
        default -> rows.mapValues(
            (key, value) -> Expressions.values(step.get("columns"), key, value), kept);
      };
    }
    return (suppresses && isLast ? closed(rows) : rows).toStream();
  }

  /** The keys of an aggregation's rows, which a store behind it does not know by itself. */
  @SuppressWarnings("unchecked")
  private static <K> Serde<K> keys(JsonNode node) {
    var windows = node.path("windows");
    return (Serde<K>) switch (windows.path("kind").asText("none")) {
      case "none" -> Serdes.String();
      case "session" -> WindowedSerdes.sessionWindowedSerdeFrom(String.class);
      default -> WindowedSerdes.timeWindowedSerdeFrom(String.class, windows.get("length").asLong());
    };
  }

  /** Only windows have an end that suppress can wait for. */
  @SuppressWarnings({"unchecked", "rawtypes"})
  private static <K> KTable<K, Row> closed(KTable<K, Row> table) {
    return ((KTable) table)
        .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()));
  }

  private static EmitStrategy emit(JsonNode node) {
    return text(node, "emit").equals("close")
        ? EmitStrategy.onWindowClose()
        : EmitStrategy.onWindowUpdate();
  }

  private static TimeWindows time(JsonNode windows) {
    return TimeWindows.ofSizeAndGrace(ms(windows, "length"), ms(windows, "grace"))
        .advanceBy(ms(windows, "advance"));
  }

  private static SlidingWindows sliding(JsonNode windows) {
    return SlidingWindows.ofTimeDifferenceAndGrace(ms(windows, "length"), ms(windows, "grace"));
  }

  private static SessionWindows sessions(JsonNode windows) {
    return SessionWindows.ofInactivityGapAndGrace(ms(windows, "length"), ms(windows, "grace"));
  }

  private static <S extends StateStore> Materialized<String, Row, S> retained(JsonNode node) {
    return Tree.<S>store(node).withRetention(ms(node.get("windows"), "retention"));
  }

  /** What an aggregation keeps, which is the store if there are no steps behind it. */
  private static <S extends StateStore> Materialized<String, Row, S> store(JsonNode node) {
    // Said, not by default: suppress takes the default for that of windowed keys.
    var name = nameOf(node) + (node.path("behind").isEmpty() ? "" : "-aggregation");
    return Materialized.<String, Row, S>as(name)
        .withKeySerde(Serdes.String())
        .withValueSerde(new Row.Serde())
        .withCachingDisabled();
  }

  /** The store of an aggregation; one in front of others has a name of its own. */
  private static String nameOf(JsonNode node) {
    return node.path("store").asText(STORE);
  }

  private static String text(JsonNode node, String name) {
    return node.get(name).asText();
  }

  private static Duration ms(JsonNode node, String name) {
    return Duration.ofMillis(node.get(name).asLong());
  }

  /** Notes a record that is going to be grouped: [key, time, whether it has a value]. */
  private static final class Noting extends ContextualFixedKeyProcessor<String, Row, Row> {
    private final List<Object> arrived;
    private final JsonNode key;

    Noting(List<Object> arrived, JsonNode key) {
      this.arrived = arrived;
      this.key = key;
    }

    @Override
    public void process(FixedKeyRecord<String, Row> one) {
      var newKey =
          key.isNull() ? one.key() : Expressions.key(key, one.key(), one.value());
      var noted = new ArrayList<Object>();
      noted.add(newKey);
      noted.add(one.timestamp());
      noted.add(one.value() != null);
      arrived.add(noted);
      context().forward(one);
    }
  }
}
