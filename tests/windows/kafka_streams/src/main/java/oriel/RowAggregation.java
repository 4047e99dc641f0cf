package oriel;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.Initializer;
import org.apache.kafka.streams.kstream.Merger;

/** What a tree aggregates rows to, by name; {@code number} is that of a cogroup's stream. */
record RowAggregation(Initializer<Row> initializer, Merger<String, Row> merger, Adder adder) {
  /** Makes the aggregator of a stream of its number and its columns: their types by name. */
  interface Adder {
    Aggregator<String, Row, Row> of(int number, JsonNode columns);
  }

  /** By the names in operations.py. */
  static final Map<String, RowAggregation> BY_NAME =
      Map.of(
          "columns",
              new RowAggregation(Row::new, RowAggregation::merged, RowAggregation::everyColumn),
          "fold",
              new RowAggregation(
                  () -> text("0"),
                  (key, left, right) -> text(left.get("text") + "+" + right.get("text")),
                  (number, columns) -> (key, value, row) -> told(row, value, "+")),
          "removing",
              new RowAggregation(
                  () -> text("0"),
                  (key, left, right) -> text(left.get("text") + "+" + right.get("text")),
                  (number, columns) ->
                      (key, value, row) ->
                          v(value) != null && v(value) % 3 == 0
                              ? null
                              : told(row, value, "+")));

  /** Adds up "v", and keeps the newer "s". */
  static Row reduced(Row kept, Row added) {
    long sum = (v(kept) == null ? 0 : v(kept)) + (v(added) == null ? 0 : v(added));
    return new Row().with("v", sum).with("s", added == null ? null : added.get("s"));
  }

  /**
   * A group with a row more (1) or less (-1): the number of rows, n0, and of each column those that
   * have it, n0_v and so on, with their sum, total0_v, while there are any.
   */
  static Row net(Row group, Row value, long sign) {
    var sum = new Row(group);
    sum.merge("n0", sign, RowAggregation::added);
    value.forEach(
        (name, part) -> {
          if (part == null) {
            return;
          }
          boolean hasMembers = !sum.merge("n0_" + name, sign, RowAggregation::added).equals(0L);
          if (part instanceof Long number) {
            sum.merge("total0_" + name, sign * number, RowAggregation::added);
          }
          if (!hasMembers) {
            sum.remove("total0_" + name);
          }
        });
    return sum;
  }

  /** A group's text with a row that came (+) or went (-): it tells of their order. */
  static Row told(Row group, Row value, String sign) {
    return text(group.get("text") + sign + v(value));
  }

  private static Object added(Object kept, Object other) {
    return (Long) kept + (Long) other;
  }

  /** Of each column number, sum, least, greatest and all values, as n0, total0_v and so on. */
  private static Aggregator<String, Row, Row> everyColumn(int number, JsonNode columns) {
    return (key, value, row) -> {
      var one = new Row().with("n" + number, 1L);
      for (var column : columns.properties()) {
        Object part = value == null ? null : value.get(column.getKey());
        if (part == null) {
          continue;
        }
        String name = number + "_" + column.getKey();
        if (part instanceof Long) {
          one.with("total" + name, part);
        }
        one.with("least" + name, part).with("most" + name, part).with("all" + name, List.of(part));
      }
      return merged(key, row, one);
    };
  }

  @SuppressWarnings("unchecked")
  private static Row merged(String key, Row left, Row right) {
    var both = new Row(left);
    right.forEach(
        (name, added) ->
            both.merge(
                name,
                added,
                (kept, other) -> {
                  if (name.startsWith("least")) {
                    return compare(kept, other) <= 0 ? kept : other;
                  }
                  if (name.startsWith("most")) {
                    return compare(kept, other) >= 0 ? kept : other;
                  }
                  if (name.startsWith("all")) {
                    var all = new ArrayList<>((List<Object>) kept);
                    all.addAll((List<Object>) other);
                    return all;
                  }
                  return (Long) kept + (Long) other;
                }));
    return both;
  }

  @SuppressWarnings("unchecked")
  private static int compare(Object left, Object right) {
    return ((Comparable<Object>) left).compareTo(right);
  }

  private static Row text(String text) {
    return new Row().with("text", text);
  }

  private static Long v(Row value) {
    return value == null ? null : (Long) value.get("v");
  }
}
