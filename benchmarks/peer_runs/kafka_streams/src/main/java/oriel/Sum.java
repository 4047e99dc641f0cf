package oriel;

import java.nio.ByteBuffer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** A window's aggregate, {@code n=count(), s=sum("v")}; in a store it has 16 bytes. */
record Sum(long n, double s) {
  static final Sum NOTHING = new Sum(0, 0.0);

  static Sum add(String key, Reading reading, Sum sum) {
    return new Sum(sum.n + 1, sum.s + reading.v());
  }

  static Sum merge(String key, Sum left, Sum right) {
    return new Sum(left.n + right.n, left.s + right.s);
  }

  static Serde<Sum> serde() {
    return Serdes.serdeFrom((topic, sum) -> bytes(sum), (topic, bytes) -> parse(bytes));
  }

  private static byte[] bytes(Sum sum) {
    // A session that is merged into another is put as null.
    return sum == null
        ? null
        : ByteBuffer.allocate(Long.BYTES + Double.BYTES).putLong(sum.n).putDouble(sum.s).array();
  }

  private static Sum parse(byte[] bytes) {
    if (bytes == null) {
      return null;
    }
    var buffer = ByteBuffer.wrap(bytes);
    return new Sum(buffer.getLong(), buffer.getDouble());
  }
}
