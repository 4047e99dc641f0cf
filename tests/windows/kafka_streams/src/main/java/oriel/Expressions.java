package oriel;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.function.Predicate;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;

/**
 * Expressions and conditions of a tree: [NAME, COLUMN], where the column "key" is the key.
 *
 * <p>As in SQL an expression over null is null, and a condition over null is not true. A record
 * without a value has null in each column. (operations.py has the same names.)
 */
final class Expressions {
  private static final Map<String, Function<Object, Object>> EXPRESSIONS =
      Map.of(
          "column", value -> value,
          "plus_1", value -> (Long) value + 1,
          "negated", value -> -(Long) value,
          "remainder_3", value -> (Long) value % 3,
          "text", String::valueOf,
          "marked", value -> value + "!");

  private static final Map<String, Predicate<Object>> CONDITIONS =
      Map.of(
          "positive", value -> value != null && (Long) value > 0,
          "third", value -> value != null && (Long) value % 3 == 0,
          "is_a", "a"::equals,
          "is_null", value -> value == null,
          "is_set", value -> value != null,
          "is_begun", value -> value != null && !"0".equals(value));

  /** Arrays over a value; null is one. */
  private static final Map<String, Function<Object, List<Object>>> ARRAYS =
      Map.of(
          "twice", value -> Arrays.asList(value, value == null ? null : (Long) value + 1),
          "up_to_2", Expressions::upTo2,
          "up_to_2_by_spark", Expressions::upTo2,
          "with_marked", value -> Arrays.asList(value, value == null ? null : value + "!"),
          "split", value ->
              value == null ? List.of() : List.of((Object[]) value.toString().split("!", -1)));

  private Expressions() {}

  private static List<Object> upTo2(Object value) {
    return value == null
        ? List.of()
        : List.<Object>of(value, -(Long) value).subList(0, (int) (Math.abs((Long) value) % 3));
  }

  static Object evaluate(JsonNode expression, Object key, Row value) {
    Object of = column(expression, key, value);
    return of == null ? null : EXPRESSIONS.get(expression.get(0).asText()).apply(of);
  }

  /** The text that an expression makes of a record, as a key; null is none. */
  static String key(JsonNode expression, Object key, Row value) {
    Object made = evaluate(expression, key, value);
    return made == null ? null : made.toString();
  }

  static boolean holds(JsonNode condition, Object key, Row value) {
    return CONDITIONS.get(condition.get(0).asText()).test(column(condition, key, value));
  }

  /** The value that {@code columns}, expressions by name, make of a record; of no value none. */
  static Row values(JsonNode columns, Object key, Row value) {
    if (value == null) {
      return null;
    }
    var made = new Row();
    columns
        .properties()
        .forEach(column -> made.with(column.getKey(), evaluate(column.getValue(), key, value)));
    return made;
  }

  /** A value for each element of the array that stands in place of its column; of no value none. */
  static List<Row> elements(JsonNode node, Row value) {
    var made = new ArrayList<Row>();
    if (value == null) {
      return made;
    }
    String name = node.get("array").get(1).asText();
    for (Object element : ARRAYS.get(node.get("array").get(0).asText()).apply(value.get(name))) {
      var one = new Row().with(name, element);
      node.get("keep").forEach(column -> one.with(column.asText(), value.get(column.asText())));
      made.add(one);
    }
    return made;
  }

  /** The same with the keys that are made of the new values. */
  static List<KeyValue<String, Row>> keyedElements(JsonNode node, Object key, Row value) {
    return elements(node, value).stream()
        .map(one -> KeyValue.pair(key(node.get("key"), key, one), one))
        .toList();
  }

  /** A column of the value, or of the key; that of an aggregated row may have a window. */
  private static Object column(JsonNode named, Object key, Row value) {
    String column = named.get(1).asText();
    if (key instanceof Windowed<?> windowed) {
      switch (column) {
        case "key":
          return windowed.key();
        case "window_start_ms":
          return windowed.window().start();
        case "window_end_ms":
          return windowed.window().end();
        default:
      }
    }
    if (column.equals("key")) {
      return key;
    }
    return value == null ? null : value.get(column);
  }
}
