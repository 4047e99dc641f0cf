package oriel;

import java.time.Duration;

/**
 * What the command line asks for: KIND LENGTH ADVANCE GRACE, then the broker's address, the topic,
 * the application's id and the folder of the state.
 *
 * <p>KIND is sliding, tumbling, hopping or session. LENGTH (time difference, size or gap), ADVANCE
 * (0 but for hopping windows) and GRACE are milliseconds.
 */
record Asked(
    String kind,
    Duration length,
    Duration advance,
    Duration grace,
    String servers,
    String topic,
    String application,
    String state) {

  static final int WORDS = 8;

  static Asked parse(String[] words) {
    return new Asked(
        words[0],
        ofMillis(words[1]),
        ofMillis(words[2]),
        ofMillis(words[3]),
        words[4],
        words[5],
        words[6],
        words[7]);
  }

  private static Duration ofMillis(String word) {
    return Duration.ofMillis(Long.parseLong(word));
  }
}
