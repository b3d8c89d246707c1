// Importer of ACPI's HMAT, the binary table of firmware.
//
//   0   "HMAT", length (4 bytes), revision (1), ...          header of 36 bytes, then 4 reserved ones
//   40  structures: type (2), reserved (2), length (4), ...  of which type 1 is:
//         +8 flags, low 4 bits: 0 memory, else a cache   +9 data type: 0 - 2 latency, 3 - 5 bandwidth (access, read, write)
//         +12 initiators (4)  +16 targets (4)  +24 base unit (8)
//         +32 a domain (4) per initiator, a domain (4) per target, an entry (2) per pair, row = initiator
//
// Latencies are picoseconds (revision 2) or tenths of nanoseconds (1), bandwidths MB/s; times base unit. An entry of 0
// or 0xffff is none.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "base/error.hpp"
#include "machine/import/memory_figures.hpp"

namespace smelt {
namespace {

constexpr std::size_t header_bytes = 40, structure_bytes = 8, locality_bytes = 32;
constexpr unsigned locality_type = 1, of_memory = 0;

/// Little-endian, wherever it lies.
std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

struct Locality {
  unsigned data_type = 0;
  std::uint64_t base = 0;
  std::vector<std::uint64_t> initiators{}, targets{};
  std::string_view entries{};

  std::uint64_t entry(std::size_t i, std::size_t t) const {
    return number_at(entries, (i * targets.size() + t) * 2, 2);
  }
};

class HmatReader {
 public:
  HmatReader(std::string_view table, const Machine& machine, const std::string& origin)
      : table_(table), figures_(machine), origin_(origin) {}

  Result<Machine> read() {
    if (auto localities = read_structures(); !localities) return localities.error();
    if (auto known = find_nodes(); !known) return known.error();
    // Read and write figures last: they say more than those of accesses in general.
    std::stable_sort(localities_.begin(), localities_.end(),
                     [](const Locality& a, const Locality& b) { return rank(a) < rank(b); });
    for (const auto& locality : localities_) put(locality);
    if (!figures_.any()) {
      return fail(0, "has no latency and no bandwidth of memory");
    }
    return std::move(figures_).finish();
  }

 private:
  static int rank(const Locality& locality) { return locality.data_type % 3 == 0 ? 0 : 1; }

  Error fail(std::size_t at, const std::string& reason) const {
    return make_error(Status::bad_format, "{}: byte {}: {}", origin_, at, reason);
  }

  Result<void> read_structures() {
    if (table_.size() < header_bytes || !table_.starts_with("HMAT")) return fail(0, "no HMAT");
    const auto length = static_cast<std::size_t>(number_at(table_, 4, 4));
    if (length < header_bytes || length > table_.size()) {
      return fail(4, fmt::format("a length of {}, but there are {} bytes", length, table_.size()));
    }
    table_ = table_.substr(0, length);
    revision_ = static_cast<unsigned>(number_at(table_, 8, 1));
    if (revision_ != 1 && revision_ != 2) return fail(8, fmt::format("revision {}; 1 and 2 are known", revision_));
    for (std::size_t at = header_bytes; at < table_.size();) {
      if (table_.size() - at < structure_bytes) return fail(at, "a structure that is cut off");
      const auto size = static_cast<std::size_t>(number_at(table_, at + 4, 4));
      if (size < structure_bytes || size > table_.size() - at) {
        return fail(at + 4, fmt::format("a structure of {} bytes, but {} are left", size, table_.size() - at));
      }
      if (number_at(table_, at, 2) == locality_type) {
        if (auto read = read_locality(at, table_.substr(at, size)); !read) return read;
      }
      at += size;
    }
    return {};
  }

  Result<void> read_locality(std::size_t at, std::string_view bytes) {
    if (bytes.size() < locality_bytes) return fail(at, "a locality structure that is cut off");
    if ((number_at(bytes, 8, 1) & 15) != of_memory) return {};
    Locality locality{.data_type = static_cast<unsigned>(number_at(bytes, 9, 1)), .base = number_at(bytes, 24, 8)};
    if (locality.data_type > 5) return {};  // of later versions
    const auto initiators = number_at(bytes, 12, 4), targets = number_at(bytes, 16, 4);
    const std::size_t room = bytes.size() - locality_bytes;
    // Each number alone first, so that the product cannot overflow.
    if (initiators > room || targets > room || 4 * (initiators + targets) + 2 * initiators * targets > room) {
      return fail(at + 12, fmt::format("{} initiators and {} targets do not fit into {} bytes", initiators, targets,
                                       bytes.size()));
    }
    std::size_t domain = locality_bytes;
    for (std::uint64_t i = 0; i < initiators; ++i, domain += 4)
      locality.initiators.push_back(number_at(bytes, domain, 4));
    for (std::uint64_t t = 0; t < targets; ++t, domain += 4) locality.targets.push_back(number_at(bytes, domain, 4));
    locality.entries = bytes.substr(domain);
    localities_.push_back(std::move(locality));
    return {};
  }

  Result<void> find_nodes() {
    std::set<std::uint64_t> domains;
    for (const auto& locality : localities_) {
      domains.insert(locality.initiators.begin(), locality.initiators.end());
      domains.insert(locality.targets.begin(), locality.targets.end());
    }
    const bool by_number = std::all_of(domains.begin(), domains.end(), [&](std::uint64_t domain) {
      return figures_.node(static_cast<double>(domain)) >= 0;
    });
    if (!by_number && domains.size() != figures_.nodes()) {
      return fail(header_bytes, fmt::format("{} proximity domains, but the machine has {} NUMA nodes", domains.size(),
                                            figures_.nodes()));
    }
    std::size_t next = 0;
    for (const auto domain : domains) {
      nodes_[domain] = by_number ? static_cast<std::size_t>(figures_.node(static_cast<double>(domain))) : next++;
    }
    return {};
  }

  void put(const Locality& locality) {
    for (std::size_t i = 0; i < locality.initiators.size(); ++i) {
      for (std::size_t t = 0; t < locality.targets.size(); ++t) {
        const auto entry = locality.entry(i, t);
        if (entry == 0 || entry == 0xffff) continue;
        put(locality.data_type, nodes_[locality.initiators[i]], nodes_[locality.targets[t]],
            static_cast<double>(entry) * static_cast<double>(locality.base));
      }
    }
  }

  void put(unsigned data_type, std::size_t from, std::size_t to, double value) {
    auto& costs = figures_.costs();
    constexpr double mb_per_gb = 1000.0;
    const double ns = value / (revision_ == 1 ? 10.0 : 1000.0);
    if (data_type <= 1) (void)figures_.put_latency(from, to, ns);
    if (data_type == 3 || data_type == 4) (void)figures_.put_bandwidth(costs.read_all_gbs, from, to, value / mb_per_gb);
    if (data_type == 3 || data_type == 5)
      (void)figures_.put_bandwidth(costs.write_all_gbs, from, to, value / mb_per_gb);
  }

  std::string_view table_;
  MemoryFigures figures_;
  const std::string& origin_;
  unsigned revision_ = 0;
  std::vector<Locality> localities_;
  std::map<std::uint64_t, std::size_t> nodes_;
};

}  // namespace

Result<Machine> parse_hmat(std::string_view table, const Machine& machine, const std::string& origin) {
  return HmatReader(table, machine, origin).read();
}

}  // namespace smelt
