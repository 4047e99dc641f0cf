package oriel;

/**
 * A window's aggregate as a string COUNT:SUM:PLACES. PLACES keeps every call: it is "0" at first
 * and grows by "+" and the place of a record (null for one without a value), or by "+" and the
 * PLACES of a session that is merged in.
 */
final class Aggregate {
  static final String INITIAL = "0:0:0";

  private Aggregate() {}

  static String add(String key, String place, String aggregate) {
    return place == null
        ? merge(key, aggregate, "1:0:null")
        : merge(key, aggregate, "1:" + place + ":" + place);
  }

  static String merge(String key, String left, String right) {
    String[] a = left.split(":");
    String[] b = right.split(":");
    long count = Long.parseLong(a[0]) + Long.parseLong(b[0]);
    long sum = Long.parseLong(a[1]) + Long.parseLong(b[1]);
    return count + ":" + sum + ":" + a[2] + "+" + b[2];
  }
}
