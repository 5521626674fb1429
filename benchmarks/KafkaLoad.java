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

  public static void main(String[] arguments) throws Exception {
    String servers = arguments[0], topic = arguments[1];
    double perSecond = Double.parseDouble(arguments[2]);
    int expected = (int) (perSecond * Double.parseDouble(arguments[3]));
    int consumers = Integer.parseInt(arguments[4]);
    long[] latencies = new long[2 * expected];
    AtomicInteger received = new AtomicInteger(), assigned = new AtomicInteger();
    String group = "latency-" + System.nanoTime();
    for (int i = 0; i < consumers; i++) {
      Thread thread =
          new Thread(() -> consume(servers, topic, group, latencies, received, assigned));
      thread.setDaemon(true);
      thread.start();
    }
    while (assigned.get() < consumers) Thread.sleep(50);
    Thread.sleep(500);

    Properties settings = new Properties();
    settings.put("bootstrap.servers", servers);
    settings.put("acks", "all");
    settings.put("linger.ms", "0");
    AtomicInteger confirmed = new AtomicInteger(), failed = new AtomicInteger();
    AtomicLong last = new AtomicLong(), longest = new AtomicLong();
    byte[] padding = new byte[BODY_BYTES];
    new Random().nextBytes(padding);
    try (KafkaProducer<byte[], byte[]> producer =
        new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
      producer.partitionsFor(topic);
      System.err.println("ready");
      long start = System.nanoTime();
      last.set(start);
      for (int i = 0; i < expected; i++) {
        long wait = start + (long) (i / perSecond * 1e9) - System.nanoTime();
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

  static void consume(
      String servers, String topic, String group, long[] latencies, AtomicInteger received,
      AtomicInteger assigned) {
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
          long age = System.nanoTime() - ByteBuffer.wrap(record.value()).getLong();
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
