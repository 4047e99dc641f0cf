package oriel;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;

/**
 * Kafka Streams over a topic of readings: {@link Asked}, then {@code once RECORDS [totals]} or
 * {@code serve PORT}.
 *
 * <p>{@code once}: process so many records, commit, end. stdout gets one line of JSON: the seconds
 * in which the records behind the first half were processed and how many these are, and with {@code
 * totals} what the store holds in the end and the seconds that it took to ask for this.
 *
 * <p>{@code serve}: process what comes, and answer reads, until killed.
 */
public final class Peer {
  private static final long CACHE_BYTES = 100L << 20;
  private static final int THREADS = 2;
  private static final long POLL_MS = 5;

  private Peer() {}

  public static void main(String[] words) throws Exception {
    var asked = Asked.parse(words);
    var processed = new LongAdder();
    var streams =
        new KafkaStreams(Aggregation.of(asked, processed), new StreamsConfig(properties(asked)));
    streams.setUncaughtExceptionHandler(
        error -> {
          error.printStackTrace();
          Runtime.getRuntime().halt(1);
          return null;
        });
    streams.start();
    if (words[Asked.WORDS].equals("serve")) {
      Reads.serve(streams, Integer.parseInt(words[Asked.WORDS + 1]));
      Thread.currentThread().join();
    }
    var answer = new HashMap<String, Number>();
    answer.putAll(secondHalf(processed, Long.parseLong(words[Asked.WORDS + 1])));
    if (words.length > Asked.WORDS + 2) {
      long began = System.nanoTime();
      answer.putAll(Reads.totals(streams, asked));
      answer.put("totals_seconds", secondsSince(began));
    }
    // Flushes the cache into RocksDB and the changelog, and commits.
    streams.close();
    System.out.println(new ObjectMapper().writeValueAsString(answer));
  }

  /**
   * What a Kafka Streams engineer sets for speed. The rest is as Kafka has it: at least once, a
   * commit each 30 seconds (reads see what is in the cache before), changelog topics.
   */
  private static Properties properties(Asked asked) {
    var properties = new Properties();
    properties.put(StreamsConfig.APPLICATION_ID_CONFIG, asked.application());
    properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, asked.servers());
    properties.put(StreamsConfig.STATE_DIR_CONFIG, asked.state());
    properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, THREADS);
    properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, CACHE_BYTES);
    return properties;
  }

  private static Map<String, Number> secondHalf(LongAdder processed, long records)
      throws InterruptedException {
    long before = waitFor(processed, records / 2);
    long began = System.nanoTime();
    long after = waitFor(processed, records);
    return Map.of(
        "steady_records", after - before, "steady_seconds", secondsSince(began));
  }

  private static long waitFor(LongAdder processed, long records) throws InterruptedException {
    while (processed.sum() < records) {
      Thread.sleep(POLL_MS);
    }
    return processed.sum();
  }

  private static double secondsSince(long began) {
    return (System.nanoTime() - began) / 1e9;
  }
}
