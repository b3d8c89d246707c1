// MemoryTimer: times copies between PUs of this machine by threads in lockstep, and copies out of a child process that
// alternates with this one. The rounds are drawn in copy_timer.hpp.
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

#include "base/cacheline.hpp"
#include "base/copy.hpp"
#include "base/error.hpp"
#include "base/read_timing.hpp"
#include "base/segment.hpp"
#include "measure/channel_timer.hpp"
#include "measure/copy_timer.hpp"
#include "measure/forked_child.hpp"
#include "smelt/collective.hpp"

namespace smelt::measure {
namespace {

constexpr std::size_t kept_bytes = std::size_t{512} << 20;  ///< most bytes in buffers that are kept between rounds

/// Writes a new value to every byte. Afterwards the writer's cache owns every line.
void write_all(std::byte* data, std::size_t size_bytes, int value) noexcept {
  std::memset(data, value, size_bytes);
  asm volatile("" : : "r"(data) : "memory");
}

/// Copies as ranks do, from the PU's own memory or from another PU's.
void copy_all(std::byte* to, const std::byte* from, std::size_t size_bytes, bool own) noexcept {
  own ? copy_bytes(to, from, size_bytes) : fetch_bytes(to, from, size_bytes);
  asm volatile("" : : "r"(to) : "memory");
}

void add_all(std::byte* to, const std::byte* from, std::size_t size_bytes) noexcept {
  auto* sum = reinterpret_cast<double*>(to);
  const auto* more = reinterpret_cast<const double*>(from);
  for (std::size_t i = 0; i < size_bytes / sizeof(double); ++i) sum[i] += more[i];
  asm volatile("" : : "r"(to) : "memory");
}

template <class Work>
double timed_ns(double clock_ns, Work&& work) {
  const auto start = ticks();
  work();
  return std::max(0.0, elapsed_ns(start, ticks()) - clock_ns);
}

}  // namespace

void MemoryTimer::Buffers::touch() noexcept {
  if (touched) return;
  write_all(source.get(), size_bytes, 0);
  write_all(target.get(), size_bytes, 0);
  touched = true;
}

/// A reusable barrier for the threads of a round, which ends at the deadline.
class MemoryTimer::LockstepThreads {
 public:
  LockstepThreads(std::size_t size, StopFlag& stop) : size_(static_cast<std::uint32_t>(size)), stop_(stop) {}

  /// Returns when all threads have called it equally often. Whatever a thread did before is then visible to all.
  bool together() noexcept {
    const auto step = step_.load(std::memory_order_relaxed);  // changes only after this thread has arrived
    // Release: publishes this thread's writes to the thread that arrives last. Acquire: that thread sees the writes of
    // all others.
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
      arrived_.store(0, std::memory_order_relaxed);  // published by the store to step_
      // Release: pairs with the acquire below and publishes the writes of all threads.
      step_.store(step + 1, std::memory_order_release);
      return true;
    }
    PollBackoff empty(stop_);
    while (step_.load(std::memory_order_acquire) == step) {  // pairs with the release above
      wait_detail::relax();
      if (!empty.again()) return false;
    }
    return true;
  }

 private:
  const std::uint32_t size_;
  StopFlag& stop_;
  alignas(separation_bytes) std::atomic<std::uint32_t> arrived_{0};
  alignas(separation_bytes) std::atomic<std::uint32_t> step_{0};
};

MemoryTimer::Pages MemoryTimer::new_pages(std::size_t size_bytes) {
  const auto whole_bytes = (size_bytes + copy_page_bytes - 1) / copy_page_bytes * copy_page_bytes;
  auto* const data = std::aligned_alloc(copy_page_bytes, whole_bytes);
  if (data == nullptr) throw std::bad_alloc();
  return Pages(static_cast<std::byte*>(data));
}

void MemoryTimer::reserve(std::span<const int> pus, std::size_t size_bytes) {
  const auto wanted = [&](int pu) { return std::find(pus.begin(), pus.end(), pu) != pus.end(); };
  std::size_t total = 0;
  for (const auto& [pu, buffers] : buffers_) total += 2 * buffers.size_bytes;
  if (total + 2 * pus.size() * size_bytes > kept_bytes) {
    // Frees buffers that this round does not need, and those that are too large.
    std::erase_if(buffers_, [&](const auto& one) { return !wanted(one.first) || one.second.size_bytes > size_bytes; });
  }
  for (const int pu : pus) {
    auto& buffers = buffers_[pu];
    if (buffers.size_bytes >= size_bytes) continue;
    buffers = {};
    buffers.source = new_pages(size_bytes);
    buffers.target = new_pages(size_bytes);
    buffers.size_bytes = size_bytes;
  }
}

template <class Body>
Result<void> MemoryTimer::run_team(std::span<const int> pus, std::size_t size_bytes, double deadline_s, Body body) {
  reserve(pus, size_bytes);
  StopFlag stop(deadline_s);
  LockstepThreads team(pus.size(), stop);
  try {
    std::vector<std::unique_ptr<PinnedThread>> threads;
    for (std::size_t t = 0; t < pus.size(); ++t) {
      auto& own = buffers_.at(pus[t]);
      threads.push_back(std::make_unique<PinnedThread>(os_index(pus[t]), stop, [&stop, &team, &own, &body, t] {
        own.touch();
        return !stop.check() && body(t, team);
      }));
    }
    Result<void> pinned;
    for (auto& thread : threads) {
      if (auto joined = thread->join(); !joined) pinned = joined;
    }
    if (!pinned) return pinned;
  } catch (const std::system_error& error) {
    return make_error(Status::io_error, "cannot start a thread to measure with: {}", error.what());
  }
  if (stop.stopped()) return out_of_time();
  return {};
}

Result<std::vector<double>> MemoryTimer::time_copies(int writer, int reader, std::size_t size_bytes, int count,
                                                     double deadline_s) {
  std::vector<double> samples;
  samples.reserve(static_cast<std::size_t>(count));
  std::vector<int> pus = {reader};
  if (writer != reader) pus.push_back(writer);
  const auto body = [&](std::size_t t, LockstepThreads& team) {
    const bool reads = t == 0, writes = t + 1 == pus.size();
    std::byte* const source = buffers_.at(writer).source.get();
    std::byte* const target = buffers_.at(reader).target.get();
    const double clock_ns = clock_overhead_ns();
    for (int i = -1; i < count; ++i) {  // -1: warm-up
      if (writes) write_all(source, size_bytes, i);
      if (!team.together()) return false;
      if (reads) {
        const double took_ns = timed_ns(clock_ns, [&] { copy_all(target, source, size_bytes, reader == writer); });
        if (i >= 0) samples.push_back(took_ns);
      }
      if (!team.together()) return false;
    }
    return true;
  };
  if (auto done = run_team(pus, size_bytes, deadline_s, body); !done) return done.error();
  return samples;
}

Result<std::vector<double>> MemoryTimer::time_additions(int pu, std::size_t size_bytes, int count, double deadline_s) {
  std::vector<double> samples;
  samples.reserve(static_cast<std::size_t>(count));
  const auto body = [&](std::size_t, LockstepThreads&) {
    auto& own = buffers_.at(pu);
    const double clock_ns = clock_overhead_ns();
    write_all(own.target.get(), size_bytes, 0);  // zeros: the sums stay the same after any number of additions
    for (int i = -1; i < count; ++i) {
      write_all(own.source.get(), size_bytes, 0);
      const double took_ns = timed_ns(clock_ns, [&] { add_all(own.target.get(), own.source.get(), size_bytes); });
      if (i >= 0) samples.push_back(took_ns);
    }
    return true;
  };
  if (auto done = run_team(std::vector<int>{pu}, size_bytes, deadline_s, body); !done) return done.error();
  return samples;
}

Result<std::vector<double>> MemoryTimer::time_together(std::span<const int> pus, std::size_t size_bytes, int count,
                                                       double deadline_s) {
  const auto size = pus.size();
  // Times of each comparison, by thread.
  std::vector<double> alone(static_cast<std::size_t>(count)), among_others(static_cast<std::size_t>(count));
  const auto body = [&](std::size_t t, LockstepThreads& team) {
    const std::byte* const source = buffers_.at(pus[(t + 1) % size]).source.get();
    auto& own = buffers_.at(pus[t]);
    const double clock_ns = clock_overhead_ns();
    const auto copy = [&] {
      return timed_ns(clock_ns, [&] { copy_all(own.target.get(), source, size_bytes, size == 1); });
    };
    for (int i = -1; i < count; ++i) {
      const auto k = static_cast<std::size_t>(std::max(i, 0));
      const bool chosen = k * size / static_cast<std::size_t>(count) % size == t;
      for (const bool all : {true, false}) {
        write_all(own.source.get(), size_bytes, i);
        if (!team.together()) return false;
        if (all || chosen) {
          const double took_ns = copy();
          if (i >= 0 && chosen) (all ? among_others : alone)[k] = took_ns;
        }
        if (!team.together()) return false;
      }
    }
    return true;
  };
  if (auto done = run_team(pus, size_bytes, deadline_s, body); !done) return done.error();
  std::vector<double> slowdowns;
  for (std::size_t k = 0; k < alone.size(); ++k) {
    if (alone[k] > 0.0) slowdowns.push_back(among_others[k] / alone[k]);
  }
  return slowdowns;
}

Result<std::vector<double>> MemoryTimer::time_combinations(int writer, int reader, std::size_t size_bytes, int count,
                                                           double deadline_s) {
  std::vector<double> samples;
  samples.reserve(static_cast<std::size_t>(count));
  const std::vector<int> pus = {reader, writer};
  const Reduction addition = sum<double>();
  const auto body = [&](std::size_t t, LockstepThreads& team) {
    auto& own = buffers_.at(reader);
    std::byte* const theirs = buffers_.at(writer).source.get();
    const double clock_ns = clock_overhead_ns();
    if (t == 0) write_all(own.source.get(), size_bytes, 0);
    for (int i = -1; i < count; ++i) {  // -1: warm-up
      if (t == 1) write_all(theirs, size_bytes, 0);
      if (!team.together()) return false;
      if (t == 0) {
        const double took_ns = timed_ns(clock_ns, [&] {
          addition.merge(own.target.get(), own.source.get(), theirs, size_bytes / sizeof(double), nullptr);
        });
        if (i >= 0) samples.push_back(took_ns);
      }
      if (!team.together()) return false;
    }
    return true;
  };
  if (auto done = run_team(pus, size_bytes, deadline_s, body); !done) return done.error();
  return samples;
}

template <class Write>
Result<std::vector<double>> MemoryTimer::time_rewritten(int writer, int reader, std::size_t size_bytes, int count,
                                                        double deadline_s, Write write) {
  std::vector<double> samples;
  samples.reserve(static_cast<std::size_t>(count));
  const std::vector<int> pus = {writer, reader};
  const auto body = [&](std::size_t t, LockstepThreads& team) {
    auto &own = buffers_.at(pus[t]), &theirs = buffers_.at(pus[1 - t]);
    std::atomic<int> drained{0};
    const double clock_ns = clock_overhead_ns();
    double plain_ns = 0.0;
    for (int i = 0; i < 2 * (count + 1); ++i) {  // the first two: warm-up
      const bool read = i % 2 != 0;
      if (read) use(read_lines(theirs.target.get(), size_bytes));
      write_all(own.source.get(), size_bytes, 0);
      if (!team.together()) return false;
      const double took_ns = timed_ns(clock_ns, [&] {
        write(own, theirs);
        drained.exchange(i, std::memory_order_seq_cst);  // after all stores before it
      });
      if (t == 0 && read && i > 1) samples.push_back(took_ns - plain_ns);
      if (!read) plain_ns = took_ns;
      if (!team.together()) return false;
    }
    return true;
  };
  if (auto done = run_team(pus, size_bytes, deadline_s, body); !done) return done.error();
  return samples;
}

Result<std::vector<double>> MemoryTimer::time_rewrites(int writer, int reader, std::size_t size_bytes, int count,
                                                       double deadline_s) {
  const auto copy = [&](Buffers& own, const Buffers&) {
    copy_all(own.target.get(), own.source.get(), size_bytes, true);
  };
  return time_rewritten(writer, reader, size_bytes, count, deadline_s, copy);
}

Result<std::vector<double>> MemoryTimer::time_changes(int writer, int reader, std::size_t size_bytes, int count,
                                                      double deadline_s) {
  const auto change = [&](Buffers& own, const Buffers&) {
    for (std::size_t at = 0; at < size_bytes; at += line_bytes) own.target.get()[at] ^= std::byte{1};
    asm volatile("" : : "r"(own.target.get()) : "memory");
  };
  return time_rewritten(writer, reader, size_bytes, count, deadline_s, change);
}

namespace {

/// The longest of each round, of the times of each reader.
std::vector<double> slowest_of(const std::vector<std::vector<double>>& times) {
  std::vector<double> slowest = times.front();
  for (const auto& one : times) {
    for (std::size_t i = 0; i < slowest.size(); ++i) slowest[i] = std::max(slowest[i], one[i]);
  }
  return slowest;
}

}  // namespace

Result<std::vector<double>> MemoryTimer::time_source(int source, std::span<const int> readers, std::size_t size_bytes,
                                                     int count, double deadline_s) {
  std::vector<int> pus = {source};
  pus.insert(pus.end(), readers.begin(), readers.end());
  std::vector<std::vector<double>> samples(readers.size());
  const auto body = [&](std::size_t t, LockstepThreads& team) {
    std::byte* const written = buffers_.at(source).source.get();
    std::byte* const target = buffers_.at(pus[t]).target.get();
    const double clock_ns = clock_overhead_ns();
    for (int i = -1; i < count; ++i) {  // -1: warm-up
      if (t == 0) write_all(written, readers.size() * size_bytes, i);
      if (!team.together()) return false;
      if (t > 0) {
        const double took_ns =
            timed_ns(clock_ns, [&] { copy_all(target, written + (t - 1) * size_bytes, size_bytes, false); });
        if (i >= 0) samples[t - 1].push_back(took_ns);
      }
      if (!team.together()) return false;
    }
    return true;
  };
  if (auto done = run_team(pus, readers.size() * size_bytes, deadline_s, body); !done) return done.error();
  return slowest_of(samples);
}

Result<std::vector<double>> MemoryTimer::time_counted_barriers(std::span<const int> pus, int count, double deadline_s) {
  constexpr int barriers_per_row = 16;
  std::vector<double> samples;
  samples.reserve(static_cast<std::size_t>(count));
  const auto body = [&](std::size_t t, LockstepThreads& team) {
    for (int i = -1; i < count; ++i) {  // -1: warm-up
      const auto start = ticks();
      for (int k = 0; k < barriers_per_row; ++k) {
        if (!team.together()) return false;
      }
      if (t == 0 && i >= 0) samples.push_back(elapsed_ns(start, ticks()) / barriers_per_row);
    }
    return true;
  };
  if (auto done = run_team(pus, line_bytes, deadline_s, body); !done) return done.error();
  return samples;
}

Result<std::vector<double>> MemoryTimer::time_combined_rewrites(int writer, int reader, std::size_t size_bytes,
                                                                int count, double deadline_s) {
  const Reduction addition = sum<double>();
  const std::size_t half = size_bytes / 2;  // each adds one half of both sources, as ranks do that share the work
  const auto add = [&](Buffers& own, Buffers& theirs) {
    const std::size_t first = &own == &buffers_.at(writer) ? 0 : half;
    addition.merge(own.target.get() + first, own.source.get() + first, theirs.source.get() + first,
                   half / sizeof(double), nullptr);
  };
  return time_rewritten(writer, reader, size_bytes, count, deadline_s, add);
}

// ---- another process ----------------------------------------------------------------------

namespace {

/// Shared by both processes. An odd value asks the child to write; an even value says that it has.
struct TurnCounter {
  std::atomic<std::uint32_t> value{0};
};

/// A child process that writes its own copy of the buffer on request.
class WritingChild {
 public:
  WritingChild(TurnCounter& turns, std::byte* data, std::size_t size_bytes, int os_index)
      : turns_(turns), child_(os_index, [&] { run(data, size_bytes); }) {}

  pid_t pid() const noexcept { return child_.pid(); }

  bool write(StopFlag& stop) noexcept {
    const auto turn = turns_.value.load(std::memory_order_relaxed);  // last written or acquired by this process
    turns_.value.store(turn + 1, std::memory_order_release);         // pairs with the child's acquire: asks it to write
    PollBackoff empty(stop);
    while (turns_.value.load(std::memory_order_acquire) != turn + 2) {  // pairs with the child's release after writing
      wait_detail::relax();
      if (!empty.again()) return false;
    }
    return true;
  }

 private:
  [[noreturn]] void run(std::byte* data, std::size_t size_bytes) noexcept {
    for (std::uint32_t turn = 0;; turn += 2) {
      std::uint32_t polls = 0;
      while (turns_.value.load(std::memory_order_acquire) != turn + 1) {  // pairs with the release in write()
        wait_detail::relax();
        if (++polls % 16384 == 0) sched_yield();
      }
      write_all(data, size_bytes, static_cast<int>(turn));
      turns_.value.store(turn + 2, std::memory_order_release);  // pairs with the acquire in write()
    }
  }

  TurnCounter& turns_;
  ForkedChild child_;
};

}  // namespace

Result<std::vector<double>> MemoryTimer::time_process_copies(int writer, int reader, std::size_t size_bytes, int count,
                                                             double deadline_s) {
  const SavedAffinity saved;
  if (auto pinned = set_this_thread_affinity({os_index(reader)}); !pinned) return pinned.error();
  auto shared = Segment::anonymous(sizeof(TurnCounter));
  if (!shared) return shared.error();
  auto& turns = *new (shared->data()) TurnCounter;
  const int pus[] = {reader};
  buffers_.clear();  // otherwise a fork would make all of their pages copy-on-write
  reserve(pus, size_bytes);
  auto& own = buffers_.at(reader);
  own.touch();
  WritingChild child(turns, own.source.get(), size_bytes, os_index(writer));
  if (child.pid() < 0) return make_error(Status::io_error, "cannot fork to measure with: {}", std::strerror(errno));
  StopFlag stop(deadline_s);
  const double clock_ns = clock_overhead_ns();
  std::vector<double> samples;
  const iovec to{own.target.get(), size_bytes}, from{own.source.get(), size_bytes};
  for (int i = -1; i < count; ++i) {  // -1: warm-up
    if (stop.check() || !child.write(stop)) return out_of_time();
    ssize_t copied = 0;
    const double took_ns = timed_ns(clock_ns, [&] { copied = process_vm_readv(child.pid(), &to, 1, &from, 1, 0); });
    if (copied < 0) {
      const auto status = errno == ENOSYS ? Status::not_supported : Status::permission_denied;
      return make_error(status, "process_vm_readv: {}", std::strerror(errno));
    }
    if (i >= 0 && static_cast<std::size_t>(copied) == size_bytes) samples.push_back(took_ns);
  }
  return samples;
}

Result<std::vector<double>> MemoryTimer::time_process_source(int writer, std::span<const int> readers,
                                                             std::size_t size_bytes, int count, double deadline_s) {
  auto shared = Segment::anonymous(sizeof(TurnCounter));
  if (!shared) return shared.error();
  auto& turns = *new (shared->data()) TurnCounter;
  buffers_.clear();  // otherwise a fork would make all of their pages copy-on-write
  const Pages source = new_pages(size_bytes);
  WritingChild child(turns, source.get(), size_bytes, os_index(writer));
  if (child.pid() < 0) return make_error(Status::io_error, "cannot fork to measure with: {}", std::strerror(errno));
  StopFlag stop(deadline_s);
  std::vector<std::vector<double>> samples(readers.size());
  std::atomic<int> refused{0};  // errno
  const auto body = [&](std::size_t t, LockstepThreads& team) {
    const iovec to{buffers_.at(readers[t]).target.get(), size_bytes}, from{source.get(), size_bytes};
    const double clock_ns = clock_overhead_ns();
    for (int i = -1; i < count; ++i) {  // -1: warm-up
      if (t == 0 && !child.write(stop)) return false;
      if (!team.together()) return false;
      const double took_ns = timed_ns(clock_ns, [&] {
        if (process_vm_readv(child.pid(), &to, 1, &from, 1, 0) < 0) refused.store(errno, std::memory_order_relaxed);
      });
      if (i >= 0) samples[t].push_back(took_ns);
      if (!team.together()) return false;
    }
    return true;
  };
  if (auto done = run_team(readers, size_bytes, deadline_s, body); !done) return done.error();
  if (const int code = refused.load(std::memory_order_relaxed); code != 0) {
    const auto status = code == ENOSYS ? Status::not_supported : Status::permission_denied;
    return make_error(status, "process_vm_readv: {}", std::strerror(code));
  }
  return slowest_of(samples);
}

}  // namespace smelt::measure
