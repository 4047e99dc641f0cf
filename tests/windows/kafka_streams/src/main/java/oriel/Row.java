package oriel;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.TreeMap;
import org.apache.kafka.common.serialization.Serdes;

/** A value with named columns: Longs, Strings and lists of them; a column that is null is missing. */
public final class Row extends TreeMap<String, Object> {
  static final ObjectMapper JSON =
      new ObjectMapper().configure(DeserializationFeature.USE_LONG_FOR_INTS, true);

  public Row() {}

  Row(Row other) {
    super(other);
  }

  /** The same with one column more, or none if {@code value} is null. */
  Row with(String column, Object value) {
    if (value != null) {
      put(column, value);
    }
    return this;
  }

  /** Rows as JSON; null is no bytes. */
  public static final class Serde extends Serdes.WrapperSerde<Row> {
    public Serde() {
      super(
          (topic, row) -> {
            try {
              return row == null ? null : JSON.writeValueAsBytes(row);
            } catch (IOException error) {
              throw new UncheckedIOException(error);
            }
          },
          (topic, bytes) -> {
            try {
              return bytes == null ? null : JSON.readValue(bytes, Row.class);
            } catch (IOException error) {
              throw new UncheckedIOException(error);
            }
          });
    }
  }
}
