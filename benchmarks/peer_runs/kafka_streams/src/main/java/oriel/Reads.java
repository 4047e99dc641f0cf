package oriel;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlySessionStore;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;

/** Interactive queries of the store: its totals, and whether a key is there, over HTTP. */
final class Reads {
  private static final Duration LOOK_BACK = Duration.ofMinutes(1);
  private static final int FOUND = 200;
  private static final int NOT_FOUND = 404;
  private static final int NOT_READY = 503;

  private Reads() {}

  /** Count the windows and add up their counts and sums. */
  static Map<String, Number> totals(KafkaStreams streams, Asked asked) {
    try (var rows = asked.kind().equals("session") ? sessions(streams).fetch(null, null)
        : windows(streams).all()) {
      return totals(rows);
    }
  }

  private static Map<String, Number> totals(KeyValueIterator<Windowed<String>, Sum> rows) {
    long windows = 0;
    long members = 0;
    double total = 0.0;
    while (rows.hasNext()) {
      KeyValue<Windowed<String>, Sum> row = rows.next();
      windows++;
      members += row.value.n();
      total += row.value.s();
    }
    return Map.of("windows", windows, "members", members, "total", total);
  }

  /** Answer GET /KEY on this machine: 200 if the key has a window of the last minute, or 404. */
  static void serve(KafkaStreams streams, int port) throws IOException {
    var server =
        HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 0);
    server.createContext("/", exchange -> answer(streams, exchange));
    server.start();
  }

  private static void answer(KafkaStreams streams, HttpExchange exchange) throws IOException {
    var key = exchange.getRequestURI().getPath().substring(1);
    int status;
    var now = Instant.now();
    // The store's cache is searched half a day after the other: a range from 1970 is slow.
    try (var found = windows(streams).fetch(key, now.minus(LOOK_BACK), now)) {
      status = found.hasNext() ? FOUND : NOT_FOUND;
    } catch (InvalidStateStoreException starting) {
      status = NOT_READY;
    }
    var body = "{}".getBytes();
    exchange.sendResponseHeaders(status, body.length);
    exchange.getResponseBody().write(body);
    exchange.close();
  }

  private static ReadOnlyWindowStore<String, Sum> windows(KafkaStreams streams) {
    return streams.store(
        StoreQueryParameters.fromNameAndType(
            Aggregation.STORE, QueryableStoreTypes.windowStore()));
  }

  private static ReadOnlySessionStore<String, Sum> sessions(KafkaStreams streams) {
    return streams.store(
        StoreQueryParameters.fromNameAndType(
            Aggregation.STORE, QueryableStoreTypes.sessionStore()));
  }
}
