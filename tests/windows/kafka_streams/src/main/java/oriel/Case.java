package oriel;

import java.time.Duration;
import java.util.Arrays;
import java.util.List;

/**
 * A line of stdin: KIND LENGTH ADVANCE GRACE RETENTION EMIT, then a token a record as they arrive.
 *
 * <p>KIND is tumbling, hopping, sliding, session or none. LENGTH is the size, time difference or
 * inactivity gap. RETENTION is the store's. EMIT is update, close or suppress. What a kind has no
 * use for is 0. A token is KEY:TIME, or KEY:TIME:null for a record without a value; the value of
 * any other record is its place among the tokens, counted from 1.
 */
record Case(
    String kind,
    Duration length,
    Duration advance,
    Duration grace,
    Duration retention,
    String emit,
    List<String> tokens) {

  static Case parse(String line) {
    String[] words = line.trim().split(" ");
    return new Case(
        words[0],
        ofMillis(words[1]),
        ofMillis(words[2]),
        ofMillis(words[3]),
        ofMillis(words[4]),
        words[5],
        Arrays.asList(words).subList(6, words.length));
  }

  private static Duration ofMillis(String word) {
    return Duration.ofMillis(Long.parseLong(word));
  }
}
