package oriel;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.function.Function;
import java.util.function.Predicate;

/**
 * Expressions and conditions of a tree: [NAME, COLUMN], where the column "key" is the key.
 *
 * <p>As in SQL an expression over null is null, and a condition over null is not true. A record
 * without a value has null in each column. ({@code OPERATIONS} in operations.py has the same names.)
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
          "is_set", value -> value != null);

  private Expressions() {}

  static Object evaluate(JsonNode expression, String key, Row value) {
    Object of = column(expression, key, value);
    return of == null ? null : EXPRESSIONS.get(expression.get(0).asText()).apply(of);
  }

  /** The text that an expression makes of a record, as a key; null is none. */
  static String key(JsonNode expression, String key, Row value) {
    Object made = evaluate(expression, key, value);
    return made == null ? null : made.toString();
  }

  static boolean holds(JsonNode condition, String key, Row value) {
    return CONDITIONS.get(condition.get(0).asText()).test(column(condition, key, value));
  }

  /** The value that {@code columns}, expressions by name, make of a record; of no value none. */
  static Row values(JsonNode columns, String key, Row value) {
    if (value == null) {
      return null;
    }
    var made = new Row();
    columns
        .properties()
        .forEach(column -> made.with(column.getKey(), evaluate(column.getValue(), key, value)));
    return made;
  }

  private static Object column(JsonNode named, String key, Row value) {
    String column = named.get(1).asText();
    if (column.equals("key")) {
      return key;
    }
    return value == null ? null : value.get(column);
  }
}
