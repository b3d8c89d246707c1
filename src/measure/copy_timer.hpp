// CopyTimer: where timings of copies come from. The copy campaign decides what to time; a CopyTimer
// times it. MemoryTimer is the real one; tests put known costs and a virtual clock in its place.
//
// A round of MemoryTimer: one thread per PU, pinned, with a source and a target that it touched
// first, and all threads in step:
//
//       writer                     reader
//       writes its source          -
//       ---------------- everybody is here ----------------
//       -                          copies it to its target, timed
//       ---------------- everybody is here ----------------
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

/// PUs are indices into the machine's PUs. Every member ends soon after the deadline with
/// timed_out; any other error says why the machine cannot be measured at all.
class CopyTimer {
 public:
  virtual ~CopyTimer() = default;

  /// Seconds of the clock that deadlines are given in.
  virtual double now_s() = 0;

  /// Nanoseconds of each of `count` copies by PU `reader` of what PU `writer` has just written;
  /// the same PU: of its own data.
  virtual Result<std::vector<double>> time_copies(int writer, int reader, std::size_t size_bytes, int count,
                                                  double deadline_s) = 0;

  /// The same out of a forked process with process_vm_readv. Errors: also permission_denied or
  /// not_supported where the kernel does not let us. Forking is better left to the end.
  virtual Result<std::vector<double>> time_process_copies(int writer, int reader, std::size_t size_bytes, int count,
                                                          double deadline_s) = 0;

  /// Nanoseconds of each of `count` additions of a vector of doubles to another, both in the cache.
  virtual Result<std::vector<double>> time_additions(int pu, std::size_t size_bytes, int count, double deadline_s) = 0;

  /// By how much a copy is slower while all `pus` copy at once, each from the next of them, than
  /// while it copies alone: one sample from each of `count` comparisons.
  virtual Result<std::vector<double>> time_together(std::span<const int> pus, std::size_t size_bytes, int count,
                                                    double deadline_s) = 0;
};

class MemoryTimer : public CopyTimer {
 public:
  /// Times PUs of `machine`, which must be the machine this runs on and outlive the timer.
  explicit MemoryTimer(const Machine& machine) : machine_(machine) {}

  double now_s() override { return monotonic_s(); }
  Result<std::vector<double>> time_copies(int writer, int reader, std::size_t size_bytes, int count,
                                          double deadline_s) override;
  Result<std::vector<double>> time_process_copies(int writer, int reader, std::size_t size_bytes, int count,
                                                  double deadline_s) override;
  Result<std::vector<double>> time_additions(int pu, std::size_t size_bytes, int count, double deadline_s) override;
  Result<std::vector<double>> time_together(std::span<const int> pus, std::size_t size_bytes, int count,
                                            double deadline_s) override;

 private:
  struct FreePages {
    void operator()(std::byte* data) const noexcept { std::free(data); }
  };
  /// Whole ones: some CPUs copy many times slower to a place a little further in its page than the source.
  using Pages = std::unique_ptr<std::byte[], FreePages>;
  /// Memory of a PU, on its NUMA node by being touched there first. Kept from round to round:
  /// first touches cost more than copies.
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

  /// Runs body(position in `pus`, team) -> bool (false: given up) on a thread per PU.
  template <class Body>
  Result<void> run_team(std::span<const int> pus, std::size_t size_bytes, double deadline_s, Body body);

  const Machine& machine_;
  std::map<int, Buffers> buffers_;  ///< by PU
};

}  // namespace smelt::measure
