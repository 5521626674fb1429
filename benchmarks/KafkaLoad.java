import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Publishes at a steady rate, consumes with so many consumers of one group, and prints one JSON
 * object: `java -cp … KafkaLoad.java SERVERS TOPIC PER_SECOND SECONDS CONSUMERS`. Kafka's own tools
 * have no such load.
 */
public class KafkaLoad {
  static final int BODY_BYTES = 1024;
  static final long LATEST_NS = 5_000_000_000L;
  static final double WARM_UP_S = 2.0;

  /** When the messages that count begin; those of the warm-up were sent before. */
  static volatile long start = Long.MAX_VALUE;

  static final AtomicInteger received = new AtomicInteger();
  static final AtomicInteger confirmed = new AtomicInteger();
  static final AtomicInteger failed = new AtomicInteger();
  static final AtomicLong last = new AtomicLong();
  static final AtomicLong longest = new AtomicLong();

  public static void main(String[] arguments) throws Exception {
    String servers = arguments[0], topic = arguments[1];
    double perSecond = Double.parseDouble(arguments[2]);
    int expected = (int) (perSecond * Double.parseDouble(arguments[3]));
    int consumers = Integer.parseInt(arguments[4]);
    long[] latencies = new long[2 * expected];
    AtomicInteger assigned = new AtomicInteger();
    String group = "latency-" + System.nanoTime();
    for (int i = 0; i < consumers; i++) {
      Thread thread = new Thread(() -> consume(servers, topic, group, latencies, assigned));
      thread.setDaemon(true);
      thread.start();
    }
    while (assigned.get() < consumers) Thread.sleep(50);
    Thread.sleep(500);

    Properties settings = new Properties();
    settings.put("bootstrap.servers", servers);
    settings.put("acks", "all");
    settings.put("linger.ms", "0");
    try (KafkaProducer<byte[], byte[]> producer =
        new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
      publish(producer, topic, perSecond, (int) (perSecond * WARM_UP_S));
      producer.flush();
      failed.set(0);
      confirmed.set(0);
      start = System.nanoTime();
      last.set(start);
      longest.set(0);
      System.err.println("ready");
      publish(producer, topic, perSecond, expected);
      producer.flush();
      long end = System.nanoTime();
      while (consumers > 0 && received.get() < expected && System.nanoTime() < end + LATEST_NS) {
        Thread.sleep(1);
      }
      int n = consumers > 0 ? Math.min(received.get(), latencies.length) : confirmed.get();
      long[] sorted = Arrays.copyOf(latencies, consumers > 0 ? n : 0);
      Arrays.sort(sorted);
      System.out.printf(
          Locale.ROOT,
          "{\"n\": %d, \"elapsed_s\": %.4f, \"p50_ms\": %s, \"p99_ms\": %s, \"failed\": %d,"
              + " \"longest_gap_ms\": %.3f}%n",
          n, (end - start) / 1e9, percentile(sorted, 50), percentile(sorted, 99), failed.get(),
          longest.get() / 1e6);
    }
    System.exit(0);
  }

  static void publish(
      KafkaProducer<byte[], byte[]> producer, String topic, double perSecond, int count)
      throws InterruptedException {
    byte[] padding = new byte[BODY_BYTES];
    new Random().nextBytes(padding);
    long began = System.nanoTime();
    for (int i = 0; i < count; i++) {
      long wait = began + (long) (i / perSecond * 1e9) - System.nanoTime();
      if (wait > 0) Thread.sleep(wait / 1_000_000, (int) (wait % 1_000_000));
      byte[] body = padding.clone();
      ByteBuffer.wrap(body).putLong(System.nanoTime());
      producer.send(
          new ProducerRecord<>(topic, body),
          (metadata, error) -> {
            if (error != null) {
              failed.incrementAndGet();
              return;
            }
            long now = System.nanoTime();
            long gap = now - last.getAndSet(now);
            longest.accumulateAndGet(gap, Math::max);
            confirmed.incrementAndGet();
          });
    }
  }

  static void consume(
      String servers, String topic, String group, long[] latencies, AtomicInteger assigned) {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", servers);
    settings.put("group.id", group);
    settings.put("auto.offset.reset", "latest");
    boolean told = false;
    try (KafkaConsumer<byte[], byte[]> consumer =
        new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      consumer.subscribe(List.of(topic));
      while (true) {
        var records = consumer.poll(Duration.ofMillis(200));
        if (!told && !consumer.assignment().isEmpty()) {
          for (var partition : consumer.assignment()) consumer.position(partition);
          assigned.incrementAndGet();
          told = true;
        }
        for (var record : records) {
          long sent = ByteBuffer.wrap(record.value()).getLong();
          long age = System.nanoTime() - sent;
          if (sent < start) continue;
          int at = received.getAndIncrement();
          if (at < latencies.length) latencies[at] = age;
        }
      }
    }
  }

  static String percentile(long[] sorted, int percent) {
    if (sorted.length == 0) return "NaN";
    int at = Math.min(sorted.length - 1, sorted.length * percent / 100);
    return String.format(Locale.ROOT, "%.3f", sorted[at] / 1e6);
  }
}
