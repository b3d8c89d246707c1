// Reads machine files: a strict, streaming reader on top of nlohmann-json's SAX parser.
//
// The text is fed to the parser in pieces, and numbers go straight into the cells of a matrix, so
// a file takes little more memory than the machine in it. Junk is refused early, whatever its
// size: a token or a gap between tokens longer than two pieces, an array longer than a machine can
// need, a key given twice, and more than max_skipped_bytes under unknown keys are all errors.
// Every error names the place as a path, such as send_ns[3][5] or pus[7].core.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "machine/limits.hpp"
#include "machine/model/model_file.hpp"
#include "machine/text.hpp"

namespace smelt {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t piece_bytes = 64u << 10;
constexpr std::size_t max_skipped_bytes = 1u << 20;
constexpr std::size_t max_skipped_depth = 64;
constexpr std::uint64_t max_file_bytes = 5ull << 30;  ///< twelve matrices of max_full_pus, 25 bytes a number
constexpr std::size_t max_page_sizes = 64;
constexpr std::size_t max_classes = 4096;        ///< of a matrix
constexpr std::size_t max_residuals = 1u << 22;  ///< of a matrix, by level

/// The bytes of a file or a string, piece by piece. Ends early where a token never ends.
class Source {
 public:
  explicit Source(std::string_view text) : size_(text.size()), rest_(text) {}
  explicit Source(int descriptor) : descriptor_(descriptor), buffer_(piece_bytes) {
    struct stat status = {};
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) size_ = static_cast<std::uint64_t>(status.st_size);
  }

  bool at_end() { return here_ == end_ && !refill(); }
  char current() const { return *here_; }
  void advance() { ++here_; }

  /// Called by the parser's events: what follows is a new token.
  void start_token() { token_start_ = position(); }
  std::uint64_t position() const { return passed_ + static_cast<std::uint64_t>(here_ - start_); }

  /// Bytes that follow, as far as they are known: 0 for a pipe.
  std::uint64_t bytes_left() const { return size_ - std::min(size_, position()); }

  /// Why the text ended early; empty if it did not.
  std::string problem() const {
    if (error_ != 0) return fmt::format("cannot read: {}", std::strerror(error_));
    if (too_long_) return "not a machine file: a text, number or gap that is far too long";
    return too_large_ ? "not a machine file: larger than any machine needs" : "";
  }
  int error_number() const { return error_; }

 private:
  bool refill() {
    passed_ += static_cast<std::uint64_t>(end_ - start_);
    start_ = here_ = end_ = nullptr;
    too_long_ = passed_ - token_start_ > piece_bytes;
    too_large_ = passed_ > max_file_bytes;
    if (too_long_ || too_large_) return false;
    if (descriptor_ < 0) {
      start_ = rest_.data();
      end_ = start_ + std::min(rest_.size(), piece_bytes);
      rest_.remove_prefix(static_cast<std::size_t>(end_ - start_));
    } else {
      ssize_t count;
      do count = read(descriptor_, buffer_.data(), buffer_.size());
      while (count < 0 && errno == EINTR);
      if (count < 0) error_ = errno;
      start_ = buffer_.data();
      end_ = start_ + std::max<ssize_t>(count, 0);
    }
    here_ = start_;
    return start_ != end_;
  }

  std::uint64_t size_ = 0;
  std::string_view rest_;
  int descriptor_ = -1;
  std::vector<char> buffer_;
  const char* start_ = nullptr;
  const char* here_ = nullptr;
  const char* end_ = nullptr;
  std::uint64_t passed_ = 0;  ///< bytes before start_
  std::uint64_t token_start_ = 0;
  int error_ = 0;
  bool too_long_ = false;
  bool too_large_ = false;
};

/// What the parser needs of an input iterator, over a Source.
struct SourceIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  Source* source = nullptr;  ///< null: the end

  char operator*() const { return source->current(); }
  SourceIterator& operator++() {
    source->advance();
    return *this;
  }
  bool operator==(const SourceIterator& other) const { return finished() == other.finished(); }

 private:
  bool finished() const { return source == nullptr || source->at_end(); }
};

/// A value that is neither an object nor an array.
struct Scalar {
  enum class Type { null, boolean, text, integer, real };
  Type type = Type::null;
  double number = 0.0;          ///< of integer and real
  std::uint64_t magnitude = 0;  ///< of an integer that is not negative
  const std::string* text = nullptr;

  bool is_number() const { return type == Type::integer || type == Type::real; }
  std::string shown() const {
    switch (type) {
      case Type::null: return "null";
      case Type::boolean: return "true or false";
      case Type::text: return "a string";
      case Type::integer:
      case Type::real: break;
    }
    return fmt::format("{}", number);
  }
};

enum class Kind { schema, text, real, cost, matrix, numbers, sizes, pus, numa_nodes, section, number, list };

/// Where the keys of an object within the file are: in "copy" or "memory", or in neither.
enum class Section { none, copy, memory };

struct Field {
  Kind kind;
  std::string Machine::*text = nullptr;
  const MatrixField* matrix = nullptr;
  const CopyNumberField* copy_number = nullptr;
  const CopyListField* copy_list = nullptr;
  std::optional<double> Machine::*cost = nullptr;
  std::vector<double> Machine::*costs = nullptr;
};

const std::map<std::string, Field, std::less<>>& fields() {
  static const auto table = [] {
    std::map<std::string, Field, std::less<>> result = {
        {"schema", {Kind::schema}},
        {"name", {Kind::text, &Machine::name}},
        {"fingerprint", {Kind::text, &Machine::fingerprint}},
        {"measured_at", {Kind::text, &Machine::measured_at}},
        {"method", {Kind::text, &Machine::method}},
        {"tsc_ghz", {Kind::real}},
        {"page_sizes_bytes", {Kind::sizes}},
        {"pus", {Kind::pus}},
        {"numa_nodes", {Kind::numa_nodes}},
        {"copy", {Kind::section}},
        {"memory", {Kind::section}},
    };
    for (const auto& [key, member] : cost_fields()) result[key] = {.kind = Kind::cost, .cost = member};
    for (const auto& [key, member] : cost_list_fields()) result[key] = {.kind = Kind::numbers, .costs = member};
    for (const auto& matrix : matrix_fields()) result[matrix.key] = {Kind::matrix, nullptr, &matrix};
    // Keys with a dot are those within "copy" and "memory".
    for (const auto* matrices : {&copy_matrix_fields(), &memory_matrix_fields()}) {
      for (const auto& matrix : *matrices) result[matrix.key] = {Kind::matrix, nullptr, &matrix};
    }
    for (const auto* numbers : {&copy_number_fields(), &memory_number_fields()}) {
      for (const auto& number : *numbers) result[number.key] = {Kind::number, nullptr, nullptr, &number};
    }
    for (const auto* lists : {&copy_list_fields(), &memory_list_fields()}) {
      for (const auto& list : *lists) result[list.key] = {Kind::list, nullptr, nullptr, nullptr, &list};
    }
    return result;
  }();
  return table;
}

/// The ids of a PU entry, in the order of `pu_keys`; -1 where the file does not say.
constexpr std::array<std::pair<const char*, int Pu::*>, 7> pu_keys = {{{"os_index", &Pu::os_index},
                                                                       {"core", &Pu::core},
                                                                       {"package", &Pu::package},
                                                                       {"numa_node", &Pu::numa_node},
                                                                       {"l2", &Pu::l2},
                                                                       {"l3", &Pu::l3},
                                                                       {"efficiency_class", &Pu::efficiency_class}}};

/// Receives the parser's events and builds a Machine. Returning false stops the parser.
class Builder {
 public:
  explicit Builder(Source& source) : source_(source) {}

  // The events, as nlohmann::json::sax_parse calls them.
  bool null() { return scalar({}); }
  bool boolean(bool) { return scalar({Scalar::Type::boolean}); }
  bool number_integer(std::int64_t value) {
    return scalar({Scalar::Type::integer, static_cast<double>(value)});  // of negative ones
  }
  bool number_unsigned(std::uint64_t value) {
    return scalar({Scalar::Type::integer, static_cast<double>(value), value});
  }
  bool number_float(double value, const std::string&) { return scalar({Scalar::Type::real, value}); }
  bool string(const std::string& value) { return scalar({Scalar::Type::text, 0.0, 0, &value}); }
  bool binary(const std::vector<std::uint8_t>&) { return fail("binary data"); }
  bool start_object(std::size_t);
  bool end_object();
  bool start_array(std::size_t);
  bool end_array();
  bool key(const std::string& name);
  bool parse_error(std::size_t position, const std::string& token, const nlohmann::json::exception& problem);

  /// The machine, after the parser has accepted the whole text.
  Result<Machine> finish();
  Error error() const { return {Status::bad_format, error_}; }

 private:
  bool scalar(const Scalar& value);
  bool top_scalar(const Scalar& value);
  bool list_entry(const Scalar& value);
  bool cell(const Scalar& value);
  bool entry_value(const Scalar& value);
  bool top_key(const std::string& name);
  bool entry_key(const std::string& name);
  bool class_key(const std::string& name);
  bool finish_row();
  bool finish_matrix();
  bool finish_entry();
  bool finish_section();
  std::vector<double>& numbers();
  bool start_classes();
  bool end_classes();
  bool class_value(const Scalar& value);
  bool residual_value(const Scalar& value);
  Result<void> make_classes();
  void set_matrix(const MatrixField& field, Matrix matrix);
  bool number_in(const Scalar& value, double most);
  bool skipped();
  void start_skipping() { skip_depth_ = depth_; }
  bool enter_skipped();
  bool leave_skipped();
  bool fail(std::string_view reason);
  std::string path() const;
  const char* required_key_missing() const;
  void fill_in_ids();
  void separate_packages(int Pu::*id);

  Source& source_;
  Machine machine_;
  std::string error_;

  /// Depth as if "copy" or "memory" were the top: 1 where its keys or those of the file are.
  std::size_t level() const { return depth_ - (section_ != Section::none ? 1 : 0); }
  const char* prefix() const {
    return section_ == Section::copy ? "copy." : section_ == Section::memory ? "memory." : "";
  }

  std::size_t depth_ = 0;  ///< open objects and arrays
  Section section_ = Section::none;
  std::size_t skip_depth_ = 0;  ///< depth of the unknown key whose value is being skipped; 0: none
  std::uint64_t skipped_bytes_ = 0;
  std::uint64_t skip_start_ = 0;

  const Field* field_ = nullptr;  ///< of the current key at level 1
  std::string field_name_;
  std::vector<std::string> seen_;  ///< keys at level 1; those in "copy" start with "copy."
  std::string entry_key_;          ///< of the current object in pus or numa_nodes
  std::vector<std::string> entry_seen_;
  std::size_t row_ = 0;     ///< index in the current array
  std::size_t column_ = 0;  ///< index in the current matrix row
  std::size_t width_ = 0;   ///< of the current matrix, known after its first row
  std::vector<double> cells_;
  NumaNode node_;

  /// A matrix by class as it stands in the file; what its keys mean is known once all PUs are.
  struct ClassText {
    const MatrixField* field = nullptr;
    std::vector<std::pair<std::string, double>> classes;
    std::array<std::vector<Residual>, unit_levels + 1> residuals;
  };
  std::vector<ClassText> class_texts_;
  /// Within a matrix by class: its keys, those of "residuals", a level's list, an entry of it.
  enum class Within { nothing, classes, residuals, list, entry };
  Within within_ = Within::nothing;
  std::string class_key_;  ///< of a class, or the level of residuals
  std::vector<std::string> class_keys_seen_;
  int residual_level_ = 0;
  std::size_t position_ = 0;  ///< in an entry
};

bool Builder::fail(std::string_view reason) {
  const auto where = path();
  if (error_.empty()) error_ = where.empty() ? std::string(reason) : fmt::format("{}: {}", where, reason);
  return false;
}

std::string Builder::path() const {
  if (depth_ == 0 || field_name_.empty()) return {};
  const bool known = field_ != nullptr;
  if (!known || level() == 1) return field_name_;
  const bool in_entry = (field_->kind == Kind::pus || field_->kind == Kind::numa_nodes) && level() >= 3;
  if (in_entry && !entry_key_.empty()) return fmt::format("{}[{}].{}", field_name_, row_, entry_key_);
  if (within_ == Within::classes) return fmt::format("{}.{}", field_name_, class_key_);
  if (within_ == Within::residuals) return fmt::format("{}.residuals.{}", field_name_, class_key_);
  if (within_ != Within::nothing) return fmt::format("{}.residuals.{}[{}]", field_name_, class_key_, row_);
  if (field_->kind == Kind::matrix && level() >= 3) return fmt::format("{}[{}][{}]", field_name_, row_, column_);
  return fmt::format("{}[{}]", field_name_, row_);
}

bool Builder::parse_error(std::size_t, const std::string& token, const nlohmann::json::exception& problem) {
  if (!error_.empty()) return false;
  const auto early = source_.problem();
  if (!early.empty()) return fail(early);
  if (source_.position() == 0) return fail("the file is empty");
  if (source_.at_end() && token.empty()) return fail("truncated: the file ends here");
  // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..."
  std::string_view text = problem.what();
  if (const auto bracket = text.find("] "); bracket != std::string_view::npos) text.remove_prefix(bracket + 2);
  return fail(fmt::format("not valid JSON: {}", shown(text, 160)));
}

// ---- unknown keys -------------------------------------------------------------------------

bool Builder::skipped() {
  skipped_bytes_ += source_.position() - skip_start_;
  skip_start_ = source_.position();
  if (skipped_bytes_ > max_skipped_bytes) return fail("not a machine file: too much data under unknown keys");
  if (depth_ == skip_depth_) skip_depth_ = 0;
  return true;
}

bool Builder::enter_skipped() {
  if (++depth_ > max_skipped_depth) return fail("not a machine file: nested too deeply");
  return skipped();
}

bool Builder::leave_skipped() {
  --depth_;
  return skipped();
}

// ---- structure ----------------------------------------------------------------------------

bool Builder::start_object(std::size_t) {
  source_.start_token();
  if (skip_depth_ != 0) return enter_skipped();
  if (depth_ == 0) {
    depth_ = 1;
    return true;
  }
  if (depth_ == 1 && field_->kind == Kind::section) {
    depth_ = 2;
    section_ = field_name_ == "copy" ? Section::copy : Section::memory;
    if (section_ == Section::copy) machine_.copy.emplace();
    if (section_ == Section::memory) machine_.memory.emplace();
    return true;
  }
  if (level() == 1 && field_->kind == Kind::matrix) return start_classes();
  if (within_ == Within::classes && class_key_ == "residuals") {
    ++depth_;
    within_ = Within::residuals;
    class_key_.clear();
    return true;
  }
  if (depth_ == 2 && (field_->kind == Kind::pus || field_->kind == Kind::numa_nodes)) {
    if (row_ >= max_pus) return fail(fmt::format("more than {} entries", max_pus));
    depth_ = 3;
    entry_seen_.clear();
    entry_key_.clear();
    node_ = {};
    if (field_->kind == Kind::pus) machine_.pus.push_back({-1, -1, -1, -1, -1, -1, -1});
    return true;
  }
  return fail("must not be an object");
}

bool Builder::end_object() {
  source_.start_token();
  if (skip_depth_ != 0) return leave_skipped();
  if (within_ != Within::nothing) return end_classes();
  entry_key_.clear();
  if (level() == 3 && !finish_entry()) return false;
  if (section_ != Section::none && level() == 1 && !finish_section()) return false;
  --depth_;
  return true;
}

bool Builder::start_array(std::size_t) {
  source_.start_token();
  if (skip_depth_ != 0) return enter_skipped();
  if (depth_ == 0) return fail("the file must hold a JSON object");
  if (within_ == Within::residuals || within_ == Within::list) {
    ++depth_;
    within_ = within_ == Within::residuals ? Within::list : Within::entry;
    (within_ == Within::list ? row_ : position_) = 0;
    if (within_ == Within::entry)
      class_texts_.back().residuals[static_cast<std::size_t>(residual_level_)].emplace_back();
    return true;
  }
  if (within_ != Within::nothing) return fail("must not be an array");
  const auto kind = field_->kind;
  if (level() == 1 && (kind == Kind::matrix || kind == Kind::numbers || kind == Kind::sizes || kind == Kind::pus ||
                       kind == Kind::numa_nodes || kind == Kind::list)) {
    ++depth_;
    row_ = 0;
    width_ = 0;
    cells_.clear();
    return true;
  }
  if (level() == 2 && kind == Kind::matrix) {
    if (row_ >= max_full_pus || (width_ != 0 && row_ >= width_)) return fail("not square: more rows than columns");
    ++depth_;
    column_ = 0;
    return true;
  }
  return fail("must not be an array");
}

bool Builder::end_array() {
  source_.start_token();
  if (skip_depth_ != 0) return leave_skipped();
  if (within_ == Within::entry && position_ != 3) return fail("must be two units and the cost");
  --depth_;
  if (within_ == Within::entry) {
    within_ = Within::list;
    ++row_;
    return true;
  }
  if (within_ == Within::list) {
    within_ = Within::residuals;
    return true;
  }
  if (level() == 2) return finish_row();
  return field_->kind != Kind::matrix || finish_matrix();
}

bool Builder::finish_row() {
  if (row_ == 0) {
    width_ = column_;
    if (width_ == 0) return fail("an empty row");
    // A number takes two bytes at least: no more room than the text can fill.
    cells_.reserve(std::min<std::uint64_t>(width_ * width_, cells_.size() + source_.bytes_left() / 2));
  }
  if (column_ != width_) {
    return fail(fmt::format("not square: {} columns, but the first row has {}", column_, width_));
  }
  ++row_;
  return true;
}

bool Builder::finish_matrix() {
  if (row_ != width_) return fail(fmt::format("not square: {} rows of {} columns", row_, width_));
  Matrix matrix(width_, std::move(cells_));
  cells_ = {};
  set_matrix(*field_->matrix, std::move(matrix));
  return true;
}

bool Builder::finish_entry() {
  if (field_->kind == Kind::pus && machine_.pus.back().os_index < 0) return fail("has no os_index");
  if (field_->kind == Kind::numa_nodes) machine_.numa_nodes.push_back(node_);
  ++row_;
  return true;
}

bool Builder::finish_section() {
  const auto missing = [&](const char* key) { return std::find(seen_.begin(), seen_.end(), key) == seen_.end(); };
  std::vector<const char*> required;
  const bool of_copy = section_ == Section::copy;
  for (const auto& field : of_copy ? copy_matrix_fields() : memory_matrix_fields()) required.push_back(field.key);
  for (const auto& field : of_copy ? copy_list_fields() : memory_list_fields()) required.push_back(field.key);
  for (const auto& field : of_copy ? copy_number_fields() : memory_number_fields()) {
    if (field.process == nullptr || machine_.copy->process) required.push_back(field.key);
  }
  for (const auto* key : required) {
    if (!missing(key)) continue;
    field_name_ = key;
    return fail("missing");
  }
  section_ = Section::none;
  return true;
}

bool Builder::key(const std::string& name) {
  source_.start_token();
  if (skip_depth_ != 0) return skipped();
  if (name.size() > most_text_bytes) return fail("a key that is far too long");
  if (within_ != Within::nothing) return class_key(name);
  return level() == 1 ? top_key(prefix() + name) : entry_key(name);
}

bool Builder::top_key(const std::string& name) {
  field_name_ = shown(name);
  const auto known = fields().find(name);
  // A key of the file that looks like one of a section is not known.
  const bool dotted = name.find('.') != std::string::npos;
  const bool in_place = dotted == (section_ != Section::none) && name.starts_with(prefix());
  field_ = known == fields().end() || !in_place ? nullptr : &known->second;
  if (field_ == nullptr) {
    skip_start_ = source_.position();
    start_skipping();
    return true;
  }
  if (std::find(seen_.begin(), seen_.end(), name) != seen_.end()) return fail("given twice");
  seen_.push_back(name);
  return true;
}

bool Builder::entry_key(const std::string& name) {
  entry_key_ = shown(name);
  bool known = field_->kind == Kind::numa_nodes ? name == "os_index" || name == "memory_bytes" : false;
  if (field_->kind == Kind::pus) {
    for (const auto& [key, member] : pu_keys) known |= name == key;
  }
  if (!known) {
    skip_start_ = source_.position();
    start_skipping();
    return true;
  }
  if (std::find(entry_seen_.begin(), entry_seen_.end(), name) != entry_seen_.end()) return fail("given twice");
  entry_seen_.push_back(name);
  return true;
}

// ---- values -------------------------------------------------------------------------------

bool Builder::scalar(const Scalar& value) {
  source_.start_token();
  if (skip_depth_ != 0) return skipped();
  if (depth_ == 0) return fail("the file must hold a JSON object");
  if (level() == 1) return top_scalar(value);
  if (within_ == Within::classes) return class_value(value);
  if (within_ == Within::entry) return residual_value(value);
  if (within_ != Within::nothing) return fail(fmt::format("must be an array, is {}", value.shown()));
  switch (field_->kind) {
    case Kind::matrix:
      if (level() == 3) return cell(value);
      return fail(fmt::format("must be an array of numbers, is {}", value.shown()));
    case Kind::numbers:
    case Kind::list:
    case Kind::sizes: return list_entry(value);
    default: break;
  }
  if (level() == 3) return entry_value(value);
  return fail(fmt::format("must be an object, is {}", value.shown()));
}

bool Builder::top_scalar(const Scalar& value) {
  const bool absent = value.type == Scalar::Type::null && section_ == Section::none;
  switch (field_->kind) {
    case Kind::schema:
      if (value.type != Scalar::Type::text || (*value.text != schema_name && *value.text != class_schema_name)) {
        return fail(
            fmt::format("must be \"{}\" or \"{}\", is {}", schema_name, class_schema_name,
                        value.type == Scalar::Type::text ? fmt::format("\"{}\"", shown(*value.text)) : value.shown()));
      }
      return true;
    case Kind::text:
      if (absent && field_->text != &Machine::name) return true;
      if (value.type != Scalar::Type::text) return fail(fmt::format("must be a string, is {}", value.shown()));
      if (value.text->size() > most_text_bytes) return fail(fmt::format("longer than {} bytes", most_text_bytes));
      machine_.*field_->text = *value.text;
      return true;
    case Kind::real:
      if (absent) return true;
      if (!value.is_number()) return fail(fmt::format("must be a number or null, is {}", value.shown()));
      if (!(value.number >= 0.0 && value.number <= max_ghz)) {
        return fail(fmt::format("must be 0..{}, is {}", max_ghz, value.shown()));
      }
      machine_.tsc_ghz = value.number;
      return true;
    case Kind::cost:
      if (absent) return true;
      if (!number_in(value, max_cost_ns)) return false;
      machine_.*field_->cost = value.number;
      return true;
    case Kind::number: {
      const auto& field = *field_->copy_number;
      if (!number_in(value, field.max_value)) return false;
      if (field.memory != nullptr) {
        *machine_.memory.*field.memory = value.number;
        return true;
      }
      auto& copy = *machine_.copy;
      if (field.process != nullptr && !copy.process) copy.process.emplace();
      (field.process != nullptr ? *copy.process.*field.process : copy.*field.member) = value.number;
      return true;
    }
    case Kind::section:
      if (absent) return true;
      return fail(fmt::format("must be an object, is {}", value.shown()));
    case Kind::pus: break;
    default:
      if (absent) return true;
  }
  return fail(fmt::format("must be an array, is {}", value.shown()));
}

bool Builder::number_in(const Scalar& value, double most) {
  if (!value.is_number()) return fail(fmt::format("must be a number, is {}", value.shown()));
  if (value.number >= 0.0 && value.number <= most) return true;
  return fail(fmt::format("must be 0..{}, is {}", most, value.shown()));
}

bool Builder::cell(const Scalar& value) {
  const double limit = field_->matrix->max_value;
  if (column_ >= max_full_pus || (width_ != 0 && column_ >= width_)) {
    return fail(width_ == 0 ? fmt::format("more than {} columns", max_full_pus)
                            : fmt::format("not square: more columns than the first row's {}", width_));
  }
  if (!number_in(value, limit)) return false;
  if (field_->matrix->zero_diagonal() && row_ == column_ && value.number != 0.0) {
    return fail(fmt::format("must be 0 on the diagonal, is {}", value.shown()));
  }
  cells_.push_back(value.number);
  ++column_;
  return true;
}

bool Builder::list_entry(const Scalar& value) {
  if (!value.is_number()) return fail(fmt::format("must be a number, is {}", value.shown()));
  if (field_->kind == Kind::sizes) {
    if (value.type != Scalar::Type::integer || value.number <= 0.0) {
      return fail(fmt::format("must be a positive integer, is {}", value.shown()));
    }
    if (row_ >= max_page_sizes) return fail(fmt::format("more than {} entries", max_page_sizes));
    machine_.page_sizes_bytes.push_back(value.magnitude);
  } else {
    if (!number_in(value, field_->kind == Kind::list ? field_->copy_list->max_value : max_cost_ns)) return false;
    if (row_ >= max_pus) return fail(fmt::format("more than {} entries", max_pus));
    numbers().push_back(value.number);
  }
  ++row_;
  return true;
}

/// The list that the current key is of.
std::vector<double>& Builder::numbers() {
  if (field_->kind != Kind::list) return machine_.*field_->costs;
  const auto& field = *field_->copy_list;
  return field.memory != nullptr ? *machine_.memory.*field.memory : *machine_.copy.*field.member;
}

bool Builder::entry_value(const Scalar& value) {
  if (value.type != Scalar::Type::integer) return fail(fmt::format("must be an integer, is {}", value.shown()));
  if (field_->kind == Kind::numa_nodes && entry_key_ == "memory_bytes") {
    if (value.number < 0.0) return fail(fmt::format("must be 0 or more, is {}", value.shown()));
    node_.memory_bytes = value.magnitude;
    return true;
  }
  if (!(value.number >= 0.0 && value.number <= max_id)) {
    return fail(fmt::format("must be 0..{}, is {}", max_id, value.shown()));
  }
  const int id = static_cast<int>(value.number);
  if (field_->kind == Kind::numa_nodes) {
    node_.os_index = id;
    return true;
  }
  for (const auto& [key, member] : pu_keys) {
    if (entry_key_ == key) machine_.pus.back().*member = id;
  }
  return true;
}

// ---- matrices by class --------------------------------------------------------------------

bool Builder::start_classes() {
  ++depth_;
  within_ = Within::classes;
  class_texts_.emplace_back().field = field_->matrix;
  class_keys_seen_.clear();
  class_key_.clear();
  return true;
}

bool Builder::end_classes() {
  --depth_;
  within_ = within_ == Within::residuals ? Within::classes : Within::nothing;
  return true;
}

bool Builder::class_key(const std::string& name) {
  class_key_ = shown(name);
  const auto seen = within_ == Within::residuals ? "residuals." + name : name;
  if (std::find(class_keys_seen_.begin(), class_keys_seen_.end(), seen) != class_keys_seen_.end()) {
    return fail("given twice");
  }
  if (class_keys_seen_.size() >= max_classes) return fail(fmt::format("more than {} classes", max_classes));
  class_keys_seen_.push_back(seen);
  if (within_ != Within::residuals) return true;
  const auto found = std::find(unit_names.begin(), unit_names.end(), name);
  if (found == unit_names.end()) return fail("must be package, numa_node, l3, l2, core or pu");
  residual_level_ = static_cast<int>(found - unit_names.begin());
  return true;
}

bool Builder::class_value(const Scalar& value) {
  if (class_key_ == "residuals") return fail(fmt::format("must be an object, is {}", value.shown()));
  if (!number_in(value, field_->matrix->max_value)) return false;
  class_texts_.back().classes.emplace_back(class_keys_seen_.back(), value.number);
  return true;
}

bool Builder::residual_value(const Scalar& value) {
  auto& list = class_texts_.back().residuals[static_cast<std::size_t>(residual_level_)];
  if (list.size() > max_residuals) return fail(fmt::format("more than {} residuals", max_residuals));
  if (position_ >= 3) return fail("must be two units and the cost");
  if (position_ == 2) {
    if (!number_in(value, field_->matrix->max_value)) return false;
    list.back().cost = value.number;
  } else {
    if (value.type != Scalar::Type::integer || !(value.number >= 0.0 && value.number <= max_id)) {
      return fail(fmt::format("must be a unit, 0..{}, is {}", max_id, value.shown()));
    }
    (position_ == 0 ? list.back().from : list.back().to) = static_cast<int>(value.number);
  }
  ++position_;
  return true;
}

/// Turns what was read into matrices. Requires: the ids of all PUs are known and sane.
Result<void> Builder::make_classes() {
  if (class_texts_.empty()) return {};
  const auto places = std::make_shared<const Places>(machine_.pus);
  std::map<std::string, std::array<int, 3>> keys;
  for (int pair = 0; pair < places->kinds() * places->kinds() * shared_count; ++pair) {
    const int kinds = pair / shared_count, a = kinds / places->kinds(), b = kinds % places->kinds();
    keys[smelt::class_key(*places, a, b, static_cast<SharedUnits>(pair % shared_count))] = {a, b, pair % shared_count};
  }
  for (auto& text : class_texts_) {
    auto costs = std::make_shared<CostsByClass>(places);
    for (const auto& [key, cost] : text.classes) {
      if (key == "own") {
        costs->set_own(cost);
        continue;
      }
      const auto found = keys.find(key);
      if (found == keys.end()) {
        return make_error(Status::bad_format, "{}.{}: not a class: a class is what its pairs share, such as {}",
                          text.field->key, shown(key), keys.begin()->first);
      }
      const auto& [a, b, shared] = found->second;
      costs->set_class(a, b, static_cast<SharedUnits>(shared), cost);
    }
    for (int level = 0; level <= pu_level; ++level) {
      auto& residuals = text.residuals[static_cast<std::size_t>(level)];
      const auto units = static_cast<int>(places->units(level));
      for (std::size_t i = 0; i < residuals.size(); ++i) {
        if (residuals[i].from < units && residuals[i].to < units) continue;
        return make_error(Status::bad_format, "{}.residuals.{}[{}]: names unit {}, but the last is {}", text.field->key,
                          unit_names[static_cast<std::size_t>(level)], i, std::max(residuals[i].from, residuals[i].to),
                          units - 1);
      }
      costs->set_residuals(level, std::move(residuals));
    }
    set_matrix(*text.field, Matrix(std::move(costs)));
  }
  return {};
}

void Builder::set_matrix(const MatrixField& field, Matrix matrix) {
  if (field.copy != nullptr) {
    *machine_.copy.*field.copy = std::move(matrix);
  } else if (field.memory != nullptr) {
    *machine_.memory.*field.memory = std::move(matrix);
  } else if (field.required != nullptr) {
    machine_.*field.required = std::move(matrix);
  } else {
    machine_.*field.optional = std::move(matrix);
  }
}

// ---- the whole ----------------------------------------------------------------------------

/// What a hand-written file may leave out: one package; a NUMA node and an L3 per package; a core
/// and an L2 per PU.
void Builder::fill_in_ids() {
  int next_core = 0;
  for (const auto& pu : machine_.pus) next_core = std::max(next_core, pu.core + 1);
  for (auto& pu : machine_.pus) {
    if (pu.package < 0) pu.package = 0;
    if (pu.numa_node < 0) pu.numa_node = pu.package;
    if (pu.l3 < 0) pu.l3 = pu.numa_node;
    if (pu.core < 0) pu.core = next_core++;
    if (pu.efficiency_class < 0) pu.efficiency_class = 0;
  }
  separate_packages(&Pu::core);
  separate_packages(&Pu::l3);
  for (auto& pu : machine_.pus) {
    if (pu.l2 < 0) pu.l2 = pu.core;
  }
  separate_packages(&Pu::l2);
}

/// Cores and caches lie in one package each. Where an id appears in several, the file counts them
/// per package; they are renumbered over the machine.
void Builder::separate_packages(int Pu::*id) {
  std::map<int, int> package_of;
  bool per_package = false;
  for (const auto& pu : machine_.pus) {
    per_package |= package_of.emplace(pu.*id, pu.package).first->second != pu.package;
  }
  if (!per_package) return;
  std::map<std::pair<int, int>, int> fresh;
  for (auto& pu : machine_.pus) {
    const int next = static_cast<int>(fresh.size());
    pu.*id = fresh.emplace(std::pair(pu.package, pu.*id), next).first->second;
  }
}

const char* Builder::required_key_missing() const {
  for (const auto* required : {"schema", "name", "pus", "send_ns", "recv_ns"}) {
    if (std::find(seen_.begin(), seen_.end(), required) == seen_.end()) return required;
  }
  return nullptr;
}

Result<Machine> Builder::finish() {
  if (const auto* missing = required_key_missing()) {
    return make_error(Status::bad_format, "{}: missing{}", missing,
                      std::string_view(missing) == "schema" ? fmt::format("; it must be \"{}\"", schema_name) : "");
  }
  fill_in_ids();
  if (!class_texts_.empty()) {
    if (auto pus = check_pus(machine_); !pus) return pus.error();
    if (auto made = make_classes(); !made) return made.error();
  }
  if (auto checked = check_machine(machine_); !checked) return checked.error();
  if (machine_.size() > most_pus_in_full) machine_ = with_costs_by_class(std::move(machine_), 0.0);
  return std::move(machine_);
}

Result<Machine> read_machine(Source& source, const std::string& origin) {
  try {
    Builder builder(source);
    const bool complete = nlohmann::json::sax_parse(SourceIterator{&source}, SourceIterator{}, &builder);
    auto machine = complete ? builder.finish() : Result<Machine>(builder.error());
    // A text that was cut off after its last brace looks complete to the parser.
    if (complete && !source.problem().empty()) machine = Error{Status::bad_format, source.problem()};
    if (machine) return machine;
    const auto status = source.error_number() != 0 ? Status::io_error : machine.error().status;
    return make_error(status, "{}: {}", origin, machine.error().message);
  } catch (const std::bad_alloc&) {
    return make_error(Status::out_of_memory, "{}: not enough memory for this machine", origin);
  } catch (const std::exception& problem) {
    return make_error(Status::bad_format, "{}: {}", origin, problem.what());
  }
}

}  // namespace

Result<Machine> parse_machine(std::string_view json, const std::string& origin) {
  Source source(json);
  return read_machine(source, origin);
}

Result<Machine> load_machine(const fs::path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const int reason = errno;
    const auto status = reason == ENOENT || reason == ENOTDIR ? Status::not_found
                        : reason == EACCES                    ? Status::permission_denied
                                                              : Status::io_error;
    return make_error(status, "{}: cannot open: {}", file.string(), std::strerror(reason));
  }
  auto machine = load_machine(descriptor, file.string());
  close(descriptor);
  return machine;
}

Result<Machine> load_machine(int descriptor, const std::string& origin) {
  Source source(descriptor);
  return read_machine(source, origin);
}

}  // namespace smelt
