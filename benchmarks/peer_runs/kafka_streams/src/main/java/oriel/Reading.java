package oriel;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import java.io.IOException;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** A record's value, the JSON object {"v": NUMBER}; what else it holds is ignored. */
record Reading(double v) {
  private static final ObjectReader READER =
      new ObjectMapper()
          .readerFor(Reading.class)
          .without(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);

  static Serde<Reading> serde() {
    return Serdes.serdeFrom(
        (topic, reading) -> {
          throw new UnsupportedOperationException("readings are read only");
        },
        (topic, bytes) -> parse(bytes));
  }

  private static Reading parse(byte[] json) {
    try {
      return json == null ? null : READER.readValue(json);
    } catch (IOException error) {
      throw new SerializationException(error);
    }
  }
}
