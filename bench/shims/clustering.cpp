// Clusters a stream of points around k of them (k-median): a program that waits at barriers most of its time.
//
//     clustering_pthread [--threads 2] [--points 20000] [--dimensions 32] [--chunk 200] [--k 10] [--seed 1]
//     clustering_openmp  the same
//
// Prints the clusters' checksum, their cost, the number of barriers and the time in seconds. Knows nothing of
// smelt: it is to be run with and without `smelt run`.
//
// Method: the stream is read in chunks. Each chunk is clustered by local search for the facility location
// problem, where a centre costs z and a point its weight x its distance to the nearest centre; z is found by
// bisection so that between k and 2 k centres are best. The centres of a chunk, weighted by their points, stand for
// it; in the end they are clustered themselves. A step of the local search asks what it would gain to open one more
// centre x, points moving to x and centres closing that lose too many:
//
//   1  every thread, for its points: who would move to x? what would it cost to move the others there, by centre?
//      -- barrier --
//   2  every thread, for its centres: is it cheaper to close it?
//      -- barrier --
//   3  all add up the gain, in the same way; if there is one, every thread moves its points
//      -- barrier --   and thread 0 rewrites the table of centres   -- barrier --
//
// All threads run the same control flow on copies of the same random numbers. Coordinates are small integers and
// distances are measured along the axes, so all sums are exact: the clusters are the same to the bit for any number
// and any timing of threads.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#else
#include <pthread.h>
#endif

namespace {

struct Options {
  int threads = 2;
  int points = 20000;
  int dimensions = 32;
  int chunk = 200;
  int k = 10;
  int seed = 1;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  std::uint64_t next() {  // xorshift, multiplied
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1du >> 16;
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

 private:
  std::uint64_t state_;
};

/// `count` points of `dimensions` coordinates in [0, 4096), one after the other, and how much each counts.
struct Points {
  int dimensions = 0;
  std::vector<std::int32_t> coordinates;
  std::vector<std::int64_t> weights;

  int count() const { return static_cast<int>(weights.size()); }
  const std::int32_t* at(int i) const { return coordinates.data() + static_cast<std::ptrdiff_t>(i) * dimensions; }
  void add(const std::int32_t* point, std::int64_t weight) {
    coordinates.insert(coordinates.end(), point, point + dimensions);
    weights.push_back(weight);
  }
  std::int64_t distance(int a, int b) const {
    const std::int32_t* x = at(a);
    const std::int32_t* y = at(b);
    std::int32_t sum = 0;
    for (int i = 0; i < dimensions; ++i) sum += std::abs(x[i] - y[i]);
    return sum;
  }
};

/// Points around places that move slowly, as they come in.
class Stream {
 public:
  explicit Stream(const Options& options) : options_(options), random_(static_cast<std::uint64_t>(options.seed)) {
    places_.resize(static_cast<std::size_t>(options.k) * static_cast<std::size_t>(options.dimensions));
    for (auto& each : places_) each = static_cast<std::int32_t>(random_.below(4096));
  }

  Points read(int count) {
    Points chunk;
    chunk.dimensions = options_.dimensions;
    std::vector<std::int32_t> point(static_cast<std::size_t>(options_.dimensions));
    for (int i = 0; i < count; ++i) {
      const auto place = random_.below(static_cast<std::uint64_t>(options_.k)) * point.size();
      for (std::size_t d = 0; d < point.size(); ++d) {
        auto& centre = places_[place + d];
        centre = std::clamp(centre + static_cast<std::int32_t>(random_.below(3)) - 1, 0, 4095);
        point[d] = std::clamp(centre + static_cast<std::int32_t>(random_.below(401)) - 200, 0, 4095);
      }
      chunk.add(point.data(), 1);
    }
    return chunk;
  }

 private:
  Options options_;
  Random random_;
  std::vector<std::int32_t> places_;
};

/// The threads' meeting place. With OpenMP it is the team's own.
class Team {
 public:
#ifdef _OPENMP
  explicit Team(int threads) : threads_(threads) {}
  void barrier() {
#pragma omp barrier
  }
  template <class Body>
  void run(Body body) {
#pragma omp parallel num_threads(threads_)
    body(omp_get_thread_num());
  }
#else
  explicit Team(int threads) : threads_(threads) {
    if (pthread_barrier_init(&barrier_, nullptr, static_cast<unsigned>(threads)) != 0) std::abort();
  }
  ~Team() { pthread_barrier_destroy(&barrier_); }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  void barrier() { pthread_barrier_wait(&barrier_); }

  template <class Body>
  void run(Body body) {
    struct Start {
      Body* body;
      int me;
    };
    const auto enter = [](void* start) -> void* {
      (*static_cast<Start*>(start)->body)(static_cast<Start*>(start)->me);
      return nullptr;
    };
    std::vector<Start> starts;
    for (int i = 0; i < threads_; ++i) starts.push_back({&body, i});
    std::vector<pthread_t> threads(static_cast<std::size_t>(threads_));
    for (int i = 1; i < threads_; ++i) {
      if (pthread_create(&threads[static_cast<std::size_t>(i)], nullptr, enter, &starts[static_cast<std::size_t>(i)]) !=
          0) {
        std::fputs("clustering: cannot start that many threads\n", stderr);
        std::exit(1);
      }
    }
    enter(&starts[0]);
    for (int i = 1; i < threads_; ++i) pthread_join(threads[static_cast<std::size_t>(i)], nullptr);
  }
#endif

  int threads() const { return threads_; }

 private:
  int threads_;
#ifndef _OPENMP
  pthread_barrier_t barrier_;
#endif
};

/// What the threads share while they cluster one set of points.
struct Clustering {
  const Points* points = nullptr;
  std::vector<int> centres;        ///< indices of points
  std::vector<int> centre_of;      ///< index into centres, by point
  std::vector<std::int64_t> cost;  ///< weight x distance, by point
  std::vector<char> moves;         ///< by point: nearer to the candidate
  std::vector<char> closes;        ///< by centre
  struct alignas(128) Share {
    std::vector<std::int64_t> moving;  ///< by centre: what it costs to move its points that would stay
    std::int64_t gain = 0;
    std::int64_t closing = 0;
    std::int64_t total = 0;
  };
  std::vector<Share> shares;  ///< by thread
};

/// One thread's part in clustering. Every member is called by all threads of the team alike.
class Worker {
 public:
  Worker(Team& team, Clustering& shared, int me) : team_(team), shared_(shared), me_(me) {}

  std::int64_t barriers() const { return barriers_; }

  void barrier() {
    ++barriers_;
    team_.barrier();
  }

  /// Leaves between k and 2 k centres, if bisection finds such a z.
  void cluster(const Points& points, int k, Random random) {
    begin(points);
    const int count = points.count();
    std::int64_t low = 0, high = 1;
    for (int i = 0; i < count; ++i)
      high += shared_.points->distance(i, 0) * points.weights[static_cast<std::size_t>(i)];
    constexpr int most_steps = 12;
    for (int step = 0; step < most_steps && count > k; ++step) {
      const std::int64_t z = low + (high - low) / 2;
      search(z, k, random);
      const int found = static_cast<int>(shared_.centres.size());
      if (found >= k && found <= 2 * k) break;
      (found < k ? high : low) = z;
    }
  }

 private:
  int from(int count) const { return static_cast<int>(static_cast<std::int64_t>(count) * me_ / team_.threads()); }
  int to(int count) const { return static_cast<int>(static_cast<std::int64_t>(count) * (me_ + 1) / team_.threads()); }
  std::int64_t weighted(int point, int other) const {
    return shared_.points->weights[static_cast<std::size_t>(point)] * shared_.points->distance(point, other);
  }

  /// The first point is the only centre.
  void begin(const Points& points) {
    barrier();
    if (me_ == 0) {
      const auto count = static_cast<std::size_t>(points.count());
      shared_.points = &points;
      shared_.centres.assign(1, 0);
      shared_.centre_of.assign(count, 0);
      shared_.cost.assign(count, 0);
      shared_.moves.assign(count, 0);
    }
    barrier();
    for (int i = from(points.count()); i < to(points.count()); ++i) {
      shared_.cost[static_cast<std::size_t>(i)] = weighted(i, 0);
    }
    barrier();
  }

  /// Steps with candidates at random until they gain little.
  void search(std::int64_t z, int k, Random& random) {
    const auto count = static_cast<std::uint64_t>(shared_.points->count());
    constexpr int most_passes = 8;
    for (int pass = 0; pass < most_passes; ++pass) {
      std::int64_t gained = 0;
      for (int i = 0; i < 4 * k; ++i) gained += try_to_open(static_cast<int>(random.below(count)), z);
      if (gained * 100 < total_cost()) break;
    }
  }

  /// The gain of opening the point x, if there is any; then it is open.
  std::int64_t try_to_open(int x, std::int64_t z) {
    const bool is_centre = shared_.cost[static_cast<std::size_t>(x)] == 0;
    look_at_points(x);
    barrier();
    look_at_centres(z);
    barrier();
    std::int64_t gain = -z;
    for (const auto& share : shared_.shares) gain += share.gain + share.closing;
    if (gain <= 0 || is_centre) {
      barrier();
      return 0;
    }
    move_points(x);
    barrier();
    if (me_ == 0) rewrite_centres(x);
    barrier();
    return gain;
  }

  void look_at_points(int x) {
    auto& share = shared_.shares[static_cast<std::size_t>(me_)];
    share.moving.assign(shared_.centres.size(), 0);
    share.gain = 0;
    const int count = shared_.points->count();
    for (int i = from(count); i < to(count); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t more = weighted(i, x) - shared_.cost[at];
      shared_.moves[at] = more < 0;
      if (more < 0) {
        share.gain -= more;
      } else {
        share.moving[static_cast<std::size_t>(shared_.centre_of[at])] += more;
      }
    }
    if (me_ == 0) shared_.closes.assign(shared_.centres.size(), 0);
  }

  void look_at_centres(std::int64_t z) {
    auto& own = shared_.shares[static_cast<std::size_t>(me_)];
    own.closing = 0;
    const int count = static_cast<int>(shared_.centres.size());
    for (int i = from(count); i < to(count); ++i) {
      std::int64_t saved = z;
      for (const auto& share : shared_.shares) saved -= share.moving[static_cast<std::size_t>(i)];
      if (saved <= 0) continue;
      shared_.closes[static_cast<std::size_t>(i)] = 1;
      own.closing += saved;
    }
  }

  void move_points(int x) {
    const int opened = static_cast<int>(shared_.centres.size());
    const int count = shared_.points->count();
    for (int i = from(count); i < to(count); ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (shared_.moves[at] == 0 && shared_.closes[static_cast<std::size_t>(shared_.centre_of[at])] == 0) continue;
      shared_.cost[at] = weighted(i, x);
      shared_.centre_of[at] = opened;
    }
  }

  void rewrite_centres(int x) {
    std::vector<int> kept, number(shared_.centres.size() + 1, 0);
    shared_.centres.push_back(x);
    shared_.closes.push_back(0);
    for (std::size_t i = 0; i < shared_.centres.size(); ++i) {
      if (shared_.closes[i] != 0) continue;
      number[i] = static_cast<int>(kept.size());
      kept.push_back(shared_.centres[i]);
    }
    for (auto& each : shared_.centre_of) each = number[static_cast<std::size_t>(each)];
    shared_.centres = kept;
  }

  std::int64_t total_cost() {
    auto& own = shared_.shares[static_cast<std::size_t>(me_)];
    own.total = 0;
    const int count = shared_.points->count();
    for (int i = from(count); i < to(count); ++i) own.total += shared_.cost[static_cast<std::size_t>(i)];
    barrier();
    std::int64_t sum = 0;
    for (const auto& share : shared_.shares) sum += share.total;
    barrier();
    return sum;
  }

  Team& team_;
  Clustering& shared_;
  int me_;
  std::int64_t barriers_ = 0;
};

/// The centres that were found, each with the weight of its points, go to `centres`.
void collect(const Clustering& found, Points& centres) {
  std::vector<std::int64_t> weights(found.centres.size(), 0);
  for (std::size_t i = 0; i < found.centre_of.size(); ++i) {
    weights[static_cast<std::size_t>(found.centre_of[i])] += found.points->weights[i];
  }
  for (std::size_t i = 0; i < weights.size(); ++i) centres.add(found.points->at(found.centres[i]), weights[i]);
}

std::uint64_t checksum(const Points& centres) {
  std::uint64_t hash = 14695981039346656037u;
  const auto add = [&hash](std::uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
  for (const auto each : centres.coordinates) add(static_cast<std::uint64_t>(each));
  for (const auto each : centres.weights) add(static_cast<std::uint64_t>(each));
  return hash;
}

void run(const Options& options) {
  Team team(options.threads);
  Stream stream(options);
  Clustering shared;
  shared.shares.resize(static_cast<std::size_t>(options.threads));
  Points chunk, centres, result;
  centres.dimensions = result.dimensions = options.dimensions;
  std::int64_t barriers = 0, cost = 0;
  const auto start = std::chrono::steady_clock::now();
  team.run([&](int me) {
    Worker worker(team, shared, me);
    std::uint64_t number = 0;
    for (int done = 0; done < options.points; done += options.chunk) {
      worker.barrier();
      if (me == 0) chunk = stream.read(std::min(options.chunk, options.points - done));
      worker.barrier();
      worker.cluster(chunk, options.k, Random(++number));
      if (me == 0) collect(shared, centres);
    }
    worker.cluster(centres, options.k, Random(0));
    if (me != 0) return;
    collect(shared, result);
    for (const auto each : shared.cost) cost += each;
    barriers = worker.barriers();
  });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("clusters %016llx (%d), cost %lld, %lld barriers, %.3f s\n",
              static_cast<unsigned long long>(checksum(result)), result.count(), static_cast<long long>(cost),
              static_cast<long long>(barriers), seconds.count());
}

bool parse(int argc, char** argv, Options& options) {
  const struct {
    const char* name;
    int* value;
    int most;
  } known[] = {{"--threads", &options.threads, 1024},
               {"--points", &options.points, 100000000},
               {"--dimensions", &options.dimensions, 1024},
               {"--chunk", &options.chunk, 1000000},
               {"--k", &options.k, 10000},
               {"--seed", &options.seed, 1 << 30}};
  for (int i = 1; i < argc; i += 2) {
    bool good = false;
    for (const auto& option : known) {
      if (std::strcmp(argv[i], option.name) != 0 || i + 1 == argc) continue;
      char* end = nullptr;
      const long value = std::strtol(argv[i + 1], &end, 10);
      good = *end == '\0' && end != argv[i + 1] && value >= 1 && value <= option.most;
      *option.value = static_cast<int>(value);
    }
    if (!good) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr, "usage: %s [--threads N] [--points N] [--dimensions N] [--chunk N] [--k N] [--seed N]\n",
                 argv[0]);
    return 2;
  }
  run(options);
}
