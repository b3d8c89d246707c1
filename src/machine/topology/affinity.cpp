// Affinity through sched_getaffinity(2) and sched_setaffinity(2) with masks of any size. The kernel refuses a buffer
// smaller than its own mask, so the buffer grows until it fits.
#include "machine/topology/affinity.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "machine/limits.hpp"
#include "smelt/machine.hpp"

namespace smelt {
namespace {

/// Whole words, so that the kernel accepts it as a mask for any number of PUs.
class PuMask {
 public:
  explicit PuMask(int pu_count) : words_((pu_count + word_bits - 1) / word_bits) {}

  std::size_t bytes() const { return words_.size() * sizeof(unsigned long); }
  cpu_set_t* data() { return reinterpret_cast<cpu_set_t*>(words_.data()); }
  void set(int pu) { words_[pu / word_bits] |= 1ul << (pu % word_bits); }

  std::vector<int> members() const {
    std::vector<int> result;
    const int count = static_cast<int>(words_.size()) * word_bits;
    for (int pu = 0; pu < count; ++pu) {
      if ((words_[pu / word_bits] >> (pu % word_bits) & 1) != 0) result.push_back(pu);
    }
    return result;
  }

 private:
  static constexpr int word_bits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> words_;
};

}  // namespace

Result<std::vector<int>> this_thread_affinity() {
  for (int pu_count = 1024; pu_count <= 64 * (max_id + 1); pu_count *= 2) {
    PuMask mask(pu_count);
    if (sched_getaffinity(0, mask.bytes(), mask.data()) == 0) return mask.members();
    if (errno != EINVAL) break;
  }
  return make_error(Status::io_error, "cannot read the affinity mask: {}", std::strerror(errno));
}

Result<void> set_this_thread_affinity(const std::vector<int>& os_indices) {
  if (os_indices.empty()) return make_error(Status::invalid_argument, "cannot pin to an empty list of PUs");
  const auto [lowest, highest] = std::minmax_element(os_indices.begin(), os_indices.end());
  if (*lowest < 0 || *highest > max_id) {
    return make_error(Status::invalid_argument, "cannot pin to PU {}: ids are 0..{}", *lowest < 0 ? *lowest : *highest,
                      max_id);
  }
  PuMask mask(*highest + 1);
  for (const int pu : os_indices) mask.set(pu);
  if (sched_setaffinity(0, mask.bytes(), mask.data()) == 0) return {};
  const int reason = errno;
  if (reason == EINVAL) {
    return make_error(Status::not_found,
                      "cannot pin to PU {}{}: no such PU online, or the cpuset of this process forbids it", *lowest,
                      os_indices.size() > 1 ? fmt::format("..{}", *highest) : std::string());
  }
  return make_error(reason == EPERM ? Status::permission_denied : Status::io_error, "cannot pin to PU {}: {}", *lowest,
                    std::strerror(reason));
}

Result<void> pin_this_thread(int os_index) { return set_this_thread_affinity({os_index}); }

SavedAffinity::SavedAffinity() {
  if (auto current = this_thread_affinity()) os_indices_ = *current;
}

SavedAffinity::~SavedAffinity() {
  if (os_indices_.empty()) return;
  const auto restored = set_this_thread_affinity(os_indices_);
  static_cast<void>(restored);  // cannot fail, since the mask was in force before
}

}  // namespace smelt
