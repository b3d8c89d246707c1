// CopyTimer: the interface through which the copy campaign times copies. MemoryTimer is the real one. Tests replace it
// by known costs and a virtual clock.
//
// A round of MemoryTimer has one pinned thread per PU. Each thread has a source and a target, which it has touched
// first. All threads proceed in lockstep:
//
//       writer                     reader
//       writes its source          -
//       ---------------- barrier ----------------
//       -                          copies it to its target, timed
//       ---------------- barrier ----------------
#pragma once

#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "measure/timing_thread.hpp"
#include "smelt/error.hpp"
#include "smelt/machine.hpp"

namespace smelt::measure {

/// PUs are indices into the machine's PUs. Every member returns timed_out soon after its deadline. Any other error says
/// why the machine cannot be measured at all.
class CopyTimer {
 public:
  virtual ~CopyTimer() = default;

  /// The present time in seconds, on the clock of the deadlines.
  virtual double now_s() = 0;

  /// Nanoseconds of each of `count` copies by PU `reader` of data that PU `writer` has just written. They may be the
  /// same PU.
  virtual Result<std::vector<double>> time_copies(int writer, int reader, std::size_t size_bytes, int count,
                                                  double deadline_s) = 0;

  /// The same out of a forked process with process_vm_readv. Further errors: permission_denied or not_supported if the
  /// kernel refuses. Call this after all other timings, because a fork slows down later writes.
  virtual Result<std::vector<double>> time_process_copies(int writer, int reader, std::size_t size_bytes, int count,
                                                          double deadline_s) = 0;

  /// Nanoseconds of each of `count` additions of a vector of doubles to another one; both are in the cache.
  virtual Result<std::vector<double>> time_additions(int pu, std::size_t size_bytes, int count, double deadline_s) = 0;

  /// The factor by which a copy is slower while all `pus` copy at once, each from the next one, than alone; one sample
  /// from each of `count` comparisons.
  virtual Result<std::vector<double>> time_together(std::span<const int> pus, std::size_t size_bytes, int count,
                                                    double deadline_s) = 0;
};

class MemoryTimer : public CopyTimer {
 public:
  /// Times PUs of `machine`, which must be the machine that this process runs on, and must outlive the timer.
  explicit MemoryTimer(const Machine& machine) : machine_(machine) {}

  double now_s() override { return monotonic_s(); }
  Result<std::vector<double>> time_copies(int writer, int reader, std::size_t size_bytes, int count,
                                          double deadline_s) override;
  Result<std::vector<double>> time_process_copies(int writer, int reader, std::size_t size_bytes, int count,
                                                  double deadline_s) override;
  Result<std::vector<double>> time_additions(int pu, std::size_t size_bytes, int count, double deadline_s) override;
  Result<std::vector<double>> time_together(std::span<const int> pus, std::size_t size_bytes, int count,
                                            double deadline_s) override;

  /// Nanoseconds of each of `count` additions of doubles that PU `writer` has just written to own ones of PU `reader`,
  /// another one, as a reduction does it.
  Result<std::vector<double>> time_combinations(int writer, int reader, std::size_t size_bytes, int count,
                                                double deadline_s);

  /// Nanoseconds by which each of `count` copies to a buffer of PU `writer` takes longer after PU `reader`, another
  /// one, has read what the buffer held. Both do the same at once. A copy is over when its last store is visible.
  Result<std::vector<double>> time_rewrites(int writer, int reader, std::size_t size_bytes, int count,
                                            double deadline_s);

  /// The same where both write by additions, of own doubles and those that the other has just written.
  Result<std::vector<double>> time_combined_rewrites(int writer, int reader, std::size_t size_bytes, int count,
                                                     double deadline_s);

  /// The same as time_rewrites() where both store a word into each line of the buffer, as a program does that changes
  /// all of it.
  Result<std::vector<double>> time_changes(int writer, int reader, std::size_t size_bytes, int count,
                                           double deadline_s);

  /// Nanoseconds until all `readers`, PUs other than `source`, have copied `size_bytes` each, all at once and each its
  /// own part, of what `source` has just written.
  Result<std::vector<double>> time_source(int source, std::span<const int> readers, std::size_t size_bytes, int count,
                                          double deadline_s);

  /// Nanoseconds until all `readers`, PUs other than `writer`, have copied the same `size_bytes`, all at once, out of a
  /// forked process on PU `writer` that has just written them. Errors as of time_process_copies().
  Result<std::vector<double>> time_process_source(int writer, std::span<const int> readers, std::size_t size_bytes,
                                                  int count, double deadline_s);

  /// Nanoseconds of a barrier of `pus` in which each counts itself on one line, and all wait for another line: a sample
  /// of each of `count` rows.
  Result<std::vector<double>> time_counted_barriers(std::span<const int> pus, int count, double deadline_s);

 private:
  /// `write(own, theirs)` writes the own target.
  template <class Write>
  Result<std::vector<double>> time_rewritten(int writer, int reader, std::size_t size_bytes, int count,
                                             double deadline_s, Write write);
  struct FreePages {
    void operator()(std::byte* data) const noexcept { std::free(data); }
  };
  /// Whole pages: some CPUs copy much more slowly if the target's offset in its page is a little larger than the
  /// source's.
  using Pages = std::unique_ptr<std::byte[], FreePages>;
  /// Memory on a PU's NUMA node, by first touch. Kept between rounds, because first touches cost more than copies.
  struct Buffers {
    std::size_t size_bytes = 0;
    Pages source;
    Pages target;
    bool touched = false;

    void touch() noexcept;
  };
  class LockstepThreads;

  static Pages new_pages(std::size_t size_bytes);
  int os_index(int pu) const { return machine_.pus[static_cast<std::size_t>(pu)].os_index; }
  void reserve(std::span<const int> pus, std::size_t size_bytes);

  /// Runs body(position in `pus`, team) on one thread per PU. The body returns false if the deadline has passed.
  template <class Body>
  Result<void> run_team(std::span<const int> pus, std::size_t size_bytes, double deadline_s, Body body);

  const Machine& machine_;
  std::map<int, Buffers> buffers_;  ///< by PU
};

}  // namespace smelt::measure
