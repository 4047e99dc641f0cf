package oriel;

import org.apache.kafka.streams.kstream.Windowed;

/**
 * A row as a token of stdout: KEY:START:END:TIMESTAMP:AGGREGATE. Without windows start and end are
 * 0; the aggregate of a tombstone is null.
 */
final class Token {
  private Token() {}

  static String of(Windowed<String> place, long timestamp, String aggregate) {
    var window = place.window();
    return place.key() + ":" + window.start() + ":" + window.end() + ":" + timestamp
        + ":" + aggregate;
  }

  static String of(String key, long timestamp, String aggregate) {
    return key + ":0:0:" + timestamp + ":" + aggregate;
  }
}
