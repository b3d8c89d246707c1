import java.util.concurrent.CyclicBarrier;
import java.util.stream.LongStream;
public class Sums {
  public static void main(String[] words) throws Exception {
    long sum = 0;
    for (int i = 0; i < 20; ++i) sum += LongStream.range(0, 4_000_000).parallel().map(x -> x * x % 1013).sum();
    CyclicBarrier barrier = new CyclicBarrier(3);
    Thread[] threads = new Thread[2];
    for (int t = 0; t < 2; ++t) {
      threads[t] = new Thread(() -> { try { for (int i = 0; i < 2000; ++i) barrier.await(); } catch (Exception e) { throw new RuntimeException(e); } });
      threads[t].start();
    }
    for (int i = 0; i < 2000; ++i) barrier.await();
    for (Thread thread : threads) thread.join();
    System.out.println(sum);
  }
}
