// Machine: what the hardware is and what communication on it costs. A plain value: it is
// discovered, measured, imported or synthesized once; nothing downstream asks the OS again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "smelt/error.hpp"

namespace smelt {

class CostsByClass;

/// A square matrix of costs; row = sender, column = receiver. It holds all cells, row after row, or, for large
/// machines, the costs of classes of pairs: what is read is the same, but a matrix by class takes a few hundred KiB
/// for thousands of PUs. Writing a cell of a matrix by class turns it into one of all cells.
class Matrix {
 public:
  Matrix() = default;
  explicit Matrix(std::size_t size, double value = 0.0) : size_(size), cells_(size * size, value) {}
  /// Takes over size * size cells, row after row.
  Matrix(std::size_t size, std::vector<double>&& cells) : size_(size), cells_(std::move(cells)) {}
  /// A matrix by class. Requires: not null.
  explicit Matrix(std::shared_ptr<const CostsByClass> classes);

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  double& operator()(std::size_t row, std::size_t column) {
    if (classes_) hold_all_cells();
    return cells_[row * size_ + column];
  }
  double operator()(std::size_t row, std::size_t column) const {
    return classes_ ? class_cost(row, column) : cells_[row * size_ + column];
  }
  /// Requires: the matrix holds all cells.
  const double* row(std::size_t index) const { return cells_.data() + index * size_; }
  /// Copies the `size()` cells of a row to `cells`. Cost: O(size).
  void copy_row(std::size_t row, double* cells) const;
  /// Null where the matrix holds all cells.
  const CostsByClass* classes() const noexcept { return classes_.get(); }

  /// The matrix with senders and receivers exchanged, in the same form.
  Matrix transposed() const;
  /// The matrix with `ns` added to every cell but those of the diagonal, in the same form.
  Matrix raised_by(double ns) const;

  bool operator==(const Matrix& other) const;

 private:
  double class_cost(std::size_t row, std::size_t column) const;
  void hold_all_cells();

  std::size_t size_ = 0;
  std::vector<double> cells_;
  std::shared_ptr<const CostsByClass> classes_;
};

/// A processing unit (hardware thread). Ids other than os_index are logical and dense per
/// machine; two PUs with the same id share that thing.
struct Pu {
  int os_index = 0;
  int core = 0;
  int package = 0;
  int numa_node = 0;
  int l2 = 0;
  int l3 = 0;
  int efficiency_class = 0;  ///< higher = faster kind of core (P above E); all 0 where the kernel tells nothing

  bool operator==(const Pu&) const = default;
};

struct NumaNode {
  int os_index = 0;
  std::uint64_t memory_bytes = 0;

  bool operator==(const NumaNode&) const = default;
};

/// What copying out of another process's memory (process_vm_readv) costs beyond the copy itself.
struct ProcessCopyCosts {
  double call_ns = 0.0;     ///< per call
  double ns_per_kib = 0.0;  ///< the kernel finding and pinning the pages

  bool operator==(const ProcessCopyCosts&) const = default;
};

/// What it costs a PU to copy data that some PU wrote last. Matrices are n x n over Machine::pus;
/// row = PU that wrote, column = PU that copies; the diagonal holds a PU's own data. copy_ns(),
/// process_copy_ns() and combine_ns() turn these numbers into times.
struct CopyCosts {
  double chunk_bytes = 0.0;   ///< size of the data that was measured as a chunk of a pipeline
  double cached_bytes = 0.0;  ///< ... in the writer's cache; > chunk_bytes
  double shared_bytes = 0.0;  ///< ... in the last-level cache; > cached_bytes
  double memory_bytes = 0.0;  ///< ... too large for the caches; > shared_bytes
  Matrix startup_ns;          ///< of any copy: one cache line, besides what its bytes cost
  Matrix chunk_ns_per_kib;    ///< of data of chunk_bytes, beyond startup_ns
  Matrix cached_ns_per_kib;   ///< of cached_bytes
  Matrix shared_ns_per_kib;   ///< of shared_bytes
  Matrix memory_ns_per_kib;   ///< of memory_bytes
  /// [k]: by how much a copy slows down when min(2^k, n) PUs copy at once, for k = 0 .. until all n
  /// copy. [0] is 1.
  std::vector<double> cached_contention;  ///< of chunks, too
  std::vector<double> shared_contention;
  std::vector<double> memory_contention;
  double add_ns_per_kib = 0.0;              ///< adding a vector of doubles to another, both in the own cache
  std::optional<ProcessCopyCosts> process;  ///< absent where the kernel does not permit it

  bool operator==(const CopyCosts&) const = default;
};

/// What it costs the PUs of a NUMA node to use the memory of one. Matrices are n x n over Machine::numa_nodes; row =
/// node of the PUs, column = node of the memory. 0: not measured (a node without PUs or without memory). GB/s are 1e9
/// bytes a second.
struct MemoryCosts {
  Matrix latency_ns;  ///< of a load that depends on the one before, without TLB misses
  Matrix gather_ns;   ///< per load of one thread that do not depend on each other
  Matrix read_gbs;    ///< of one thread, in order
  Matrix write_gbs;
  Matrix read_all_gbs;  ///< of all threads of the node
  Matrix write_all_gbs;
  double interleaved_gbs = 0.0;          ///< all threads of the machine read memory that lies on all nodes in turns
  std::vector<double> page_bytes;        ///< ascending; [0] is the smallest page
  std::vector<double> walk_ns;           ///< what a TLB miss adds to a dependent load, by page size
  std::vector<double> gather_walk_ns;    ///< ... to independent ones
  std::vector<double> reach_bytes;       ///< memory that the TLB covers: up to there nothing is added
  std::vector<double> touch_ns_per_mib;  ///< first touch
  double copy_memcpy_gbs = 0.0;          ///< copied bytes a second, one thread
  double copy_nontemporal_gbs = 0.0;     ///< by stores past the caches
  double copy_string_gbs = 0.0;          ///< by the CPU's string instruction
  double copy_threads_gbs = 0.0;         ///< by all threads, the best of these methods

  bool operator==(const MemoryCosts&) const = default;
};

/// Topology and measured costs. All matrices are n x n over `pus` in order, in nanoseconds,
/// 0 on the diagonal; row = sender. The model ([Kaestle16] 2.4.2.2, [Smelt16] 3.1): sending
/// i -> j blocks i for send_ns(i,j); the message can be taken up propagation_ns(i,j) later
/// (0 where unknown); taking it up blocks j for recv_ns(i,j). Messages in a row overlap: the next send begins
/// send_gap_ns after this one, and a message that waits behind another is taken recv_gap_ns after it.
struct Machine {
  std::string name;
  std::string fingerprint;  ///< of the hardware; the key of the cache
  std::vector<Pu> pus;
  std::vector<NumaNode> numa_nodes;  ///< index = Pu::numa_node; may be empty for imported machines
  std::vector<std::uint64_t> page_sizes_bytes;

  Matrix send_ns;  ///< empty until measured
  Matrix recv_ns;
  std::optional<Matrix> rtt_ns;          ///< a one-line message there and back
  std::optional<Matrix> propagation_ns;  ///< max(0, lone latency - send - recv): what a lone message waits beyond both
  std::optional<Matrix> exchange_ns;     ///< both send at once and then receive: symmetric
  std::optional<Matrix> send_gap_ns;     ///< from the start of a send to that of the sender's next; absent: send_ns
  std::optional<Matrix> recv_gap_ns;     ///< what a message that waits adds to a row of receives; absent: recv_ns
  std::optional<Matrix> send_spread;     ///< relative spread (interquartile range / median) of the samples
  std::optional<Matrix> recv_spread;
  std::optional<double> call_ns;          ///< what a call, but that of a barrier, costs a rank besides its messages
  std::optional<double> barrier_call_ns;  ///< the same of a barrier
  /// What writing data costs more if another PU has read the lines meanwhile, relative to a copy of as many bytes from
  /// that PU.
  std::optional<double> rewrite_share;
  /// The same of data that is written by a combination with what another PU has written; absent: rewrite_share.
  std::optional<double> combine_rewrite_share;
  /// As CopyCosts::cached_contention, of the first chunk_bytes out of other PUs' caches; empty: as that.
  std::vector<double> chunk_contention;
  /// How many times as long as a copy it takes to combine what another PU has written with own data, of 4 KiB,
  /// 64 KiB and cached_bytes; empty: as an addition within the own cache.
  std::vector<double> combine_share;
  /// How long each KiB keeps a PU's caches busy that hand it out to others, no matter to how many; absent: not at all.
  std::optional<double> source_ns_per_kib;
  /// The same of what lies in the PU's first cache; absent: as source_ns_per_kib.
  std::optional<double> near_source_ns_per_kib;
  std::optional<double> near_bytes;  ///< size of that cache
  /// How long each KiB that processes read out of the same memory of another one at once keeps its pages busy, for each
  /// of them, because the kernel counts who uses a page; absent: not at all.
  std::optional<double> process_pages_ns_per_kib;
  /// What it costs more, per KiB, to store a word into each line of data that another PU has read meanwhile; absent: 0.
  std::optional<double> change_ns_per_kib;
  /// What each PU adds until all have counted themselves on one line, at once; absent: a message.
  std::optional<double> counter_ns;
  std::optional<double> process_switch_ns;  ///< as switch_ns, between processes
  std::vector<double> send_burst_ns;        ///< [k]: cost of the (k+1)-th of a burst of sends to distinct receivers
  std::vector<double> recv_burst_ns;        ///< [k]: cost of the (k+1)-th of a burst of receives of messages that wait
  /// [k]: what the (k+1)-th receive adds to a row of messages that come at once while the receiver waits for the first;
  /// later ones, and empty: recv_gap_ns.
  std::vector<double> recv_row_ns;
  /// [k]: how much later than a lone reader the last of 2^k has a line that all wait for; empty: every reader but the
  /// first adds recv_ns.
  std::vector<double> fan_out_ns;
  std::vector<double> poll_ns;        ///< [k]: one look at each of 2^k channels that hold no message
  std::vector<double> lines_ns;       ///< [k]: a lone message of 2^k lines, from the first PU to another one
  std::optional<double> switch_ns;    ///< handing a PU from one rank to another that shares it
  std::optional<CopyCosts> copy;      ///< absent until measured: copies are then estimated from the latencies
  std::optional<MemoryCosts> memory;  ///< absent until measured

  double tsc_ghz = 0.0;     ///< ticks of the cycle counter per nanosecond; 0 where unknown
  std::string measured_at;  ///< ISO 8601, UTC; empty if never measured
  std::string method;       ///< where the costs come from: "measured", "core-to-core", "machinedb", "synthetic", ...

  std::size_t size() const noexcept { return pus.size(); }
  bool has_costs() const noexcept { return !pus.empty() && send_ns.size() == pus.size(); }
  /// Index into `pus` of the PU with that os_index, or -1. O(n).
  int index_of(int os_index) const noexcept;

  bool operator==(const Machine&) const = default;
};

/// How long PU `to` (index into Machine::pus) takes to copy `bytes` bytes that PU `from` wrote
/// last, while `copiers` PUs in all copy at the same time; from == to: its own data. Nanoseconds; 0
/// for 0 bytes; never falls with more bytes or more copiers. Taken from machine.copy, without it
/// estimated from the latencies (docs/reference/model.md says how).
/// Requirements: from, to < machine.size(). Cost: O(1), no allocation.
double copy_ns(const Machine& machine, std::size_t from, std::size_t to, double bytes, int copiers = 1) noexcept;

/// The same when `from` belongs to another process and `to` copies with one call of
/// process_vm_readv. Infinite where machine.copy says that the kernel does not permit it.
double process_copy_ns(const Machine& machine, std::size_t from, std::size_t to, double bytes,
                       int copiers = 1) noexcept;

/// The same as copy_ns() for reading the data and adding it, as doubles, to data of its own.
double combine_ns(const Machine& machine, std::size_t from, std::size_t to, double bytes, int copiers = 1) noexcept;

/// What this process may really use of the machine it runs on.
struct Allowance {
  std::vector<int> pus;    ///< os_index of each PU in the affinity mask and cpuset, ascending
  double cpu_quota = 0.0;  ///< PUs' worth of time that the cgroup grants (v2 cpu.max, v1 cfs quota); 0 = no limit

  /// How many ranks can run at the same time: min(|pus|, quota rounded up), at least 1.
  int parallelism() const noexcept;
};

/// The hardware under this process, through hwloc, without costs: all PUs that are online, also
/// those that this process may not use, ascending by os_index. HWLOC_SYNTHETIC and HWLOC_XMLFILE
/// stand in for the hardware. Cost: milliseconds.
Result<Machine> discover_machine();

/// The value of the environment variable SMELT_HARDWARE for processes that are to use this machine's cached model
/// without discovering it again, as ranks of MPI: "<fingerprint>@<hash>@<hash of the PUs>", 16 hex digits each. They
/// ignore it after another start of the kernel, with other PUs or NUMA nodes online, or with other settings of hwloc.
/// Empty if the kernel does not tell these, or if the machine has no fingerprint.
std::string hardware_note(const Machine& discovered);

/// Keeps the machine, without costs, in the cache for processes that get its hardware_note(): they need not discover a
/// machine that has not been measured. Does nothing if its measured model is in the cache, if it is kept there
/// already, or where the cache cannot be written. The file is <fingerprint>.hardware.json beside cache_path().
void save_hardware(const Machine& discovered) noexcept;

/// What may be used now: affinity mask of the calling thread, cgroup cpuset and CPU quota.
Result<Allowance> discover_allowance();

/// Machines of more PUs hold their costs by class, where classes describe them (docs/reference/model.md, "Classes").
inline constexpr std::size_t most_pus_in_full = 256;

/// The machine with each matrix by class: every class costs its median, with residuals for the pairs of units, and of
/// PUs, that differ from it by more than the share `noise`. A matrix that needs residuals for more than an eighth of
/// its pairs keeps all cells. Cost: O(n^2) of each matrix that holds all cells.
Machine with_costs_by_class(Machine machine, double noise);

/// The longest name of a machine, and any other text in its file.
inline constexpr std::size_t most_text_bytes = 4096;

/// Reads a machine file (JSON, schema "smelt-machine/1" or "smelt-machine/2"). The error names file, key and reason.
/// Never returns a half-loaded machine.
Result<Machine> load_machine(const std::filesystem::path& file);

/// The same from an open file such as standard input, which is read to its end; `origin` stands for the file name in
/// errors.
Result<Machine> load_machine(int descriptor, const std::string& origin);

/// The same from memory; `origin` stands for the file name in errors.
Result<Machine> parse_machine(std::string_view json, const std::string& origin);

/// JSON text of a machine, as load_machine reads it. Matrices by class are written as classes, under schema
/// "smelt-machine/2"; a machine without any has schema "smelt-machine/1".
std::string format_machine(const Machine& machine);

/// Writes to a temporary file beside `file`, flushes and renames it: readers see the old or the
/// new one. A link is followed; a pipe or device is written straight. Missing directories are not
/// made. Errors: a machine that load_machine would refuse, or what the operating system says.
Result<void> save_machine(const Machine& machine, const std::filesystem::path& file);

/// Where the model of a machine with that fingerprint is cached:
/// <fingerprint>.json in $SMELT_CACHE_DIR, else $XDG_CACHE_HOME/smelt, else ~/.cache/smelt, else,
/// without a home, /tmp/smelt-<uid>. The directory may not be there yet.
std::filesystem::path cache_path(const std::string& fingerprint);

/// Where save_cached_machine() keeps a model of this machine: at cache_path(), or, if it lacks some of the PUs, at
/// <fingerprint>-<hash of its PUs>.json beside that, where it replaces no model of other PUs.
std::filesystem::path cached_machine_path(const Machine& measured);

/// Writes a measured model of this machine to cached_machine_path(), and creates the directory if there is none.
Result<void> save_cached_machine(const Machine& measured);

/// The measured model of this machine from the cache, if there is one and it still fits the
/// hardware: same fingerprint, same PUs, and all PUs that this process may use were measured.
/// Of several that fit, the one with the most PUs: so processes that may use different PUs find the same one.
/// not_found otherwise. A damaged file is an error.
Result<Machine> load_cached_machine();

/// Reads a core-to-core latency CSV: n rows of n comma-separated fields, lower triangle =
/// one-way latency in ns. Infers core, l3, numa_node and package from gaps in the latencies.
/// send_ns = share * latency, recv_ns = (1 - share) * latency. Requires 0 <= send_share <= 1.
Result<Machine> import_core_to_core(const std::filesystem::path& csv, double send_share = 0.25);

/// Reads a directory of the original research prototype's measurements: files ending in
/// `_send`, `_receive` and optionally `_rtt`, one line `sender receiver mean stddev` per ordered
/// pair, in cycles at `ghz` (1.0 keeps the numbers as they are); layout from `lscpu_parse.txt`
/// (without it: every PU its own core, all in one NUMA node).
Result<Machine> import_machinedb(const std::filesystem::path& directory, double ghz = 1.0);

/// A published format of measurements.
struct ImporterInfo {
  std::string_view name;     ///< such as "core-to-core"
  std::string_view content;  ///< what its files hold, in a line or two for the user
  bool directory;            ///< a directory of files; otherwise one file
  bool uses_send_share;      ///< ImportOptions::send_share counts
  bool uses_ghz;             ///< ImportOptions::ghz counts
};

/// All formats that import_machine() reads.
const std::vector<ImporterInfo>& importers();

struct ImportOptions {
  std::string format{};      ///< name of an importer; empty: recognized by the content
  double send_share = 0.25;  ///< part of a latency that blocks the sender, 0 .. 1
  double ghz = 1.0;          ///< cycles per ns, for formats that count cycles
};

/// Reads published measurements. `path` is a file, or a directory for formats that consist of several files.
/// Errors: invalid_argument (no such format, an option out of range), not_found, permission_denied, io_error,
/// bad_format with file and line.
Result<Machine> import_machine(const std::filesystem::path& path, const ImportOptions& options = {});

/// The machine with memory costs that others have measured, in place of its own: ACPI's table HMAT as
/// /sys/firmware/acpi/tables/HMAT has it, the printed output of Intel's Memory Latency Checker, or a directory such as
/// /sys/devices/system/node with the kernel's access classes. Which of them `source` is, its content tells. What it
/// does not say is estimated where it is used. Requirements: the machine's NUMA nodes are those of the source. Errors:
/// invalid_argument (no NUMA nodes), not_found, io_error, bad_format.
Result<Machine> import_memory(const std::filesystem::path& source, const Machine& machine);

/// What a synthetic machine looks like. Counts nest: a package has `cores` cores of `smt` PUs. Its
/// `numa_per_package` NUMA nodes, and its `l3` L3 caches, are runs of consecutive cores of equal
/// length; one of these two counts divides the other, so that either several L3s lie in a NUMA
/// node or several NUMA nodes under an L3. PUs, cores, caches, NUMA nodes and packages are numbered
/// in that order; the PUs of a core have consecutive os_index.
struct SynthSpec {
  int packages = 1;
  int numa_per_package = 1;
  int cores = 8;  ///< per package
  int smt = 1;    ///< PUs per core
  int l3 = 1;     ///< L3 caches per package
  /// One-way latency in ns between two PUs of the same core; else of the same L3 and NUMA node;
  /// else of the same L3 or NUMA node; else of the same package; else of the machine.
  double smt_ns = 10, l3_ns = 40, numa_ns = 80, package_ns = 110, remote_ns = 220;
  double send_share = 0.25;
  /// Relative, 0 <= jitter < 1: uniform in [-jitter, +jitter], per unordered pair of PUs; on machines of more than
  /// most_pus_in_full PUs per unordered pair of L3 caches, NUMA nodes or packages, the finest of which there are at
  /// most 256.
  double jitter = 0.0;
  std::uint64_t seed = 1;  ///< of the jitter
};

/// A machine to plan for ahead of having it: at most 16384 PUs, costs rounded to 0.001 ns. The same
/// spec gives the same machine everywhere. Errors: counts that do not divide, costs out of range.
Result<Machine> synthesize_machine(const SynthSpec& spec);

/// Pins the calling thread to that PU. Cost: a system call.
Result<void> pin_this_thread(int os_index);

}  // namespace smelt
