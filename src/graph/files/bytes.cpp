#include "graph/files/bytes.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace smelt::graph {
namespace {

constexpr std::size_t compressed_bytes = 256u << 10;

Status status_of_errno() {
  switch (errno) {
    case ENOENT:
    case ENOTDIR: return Status::not_found;
    case EACCES:
    case EPERM: return Status::permission_denied;
    default: return Status::io_error;
  }
}

/// A function of a library, which is loaded now and never unloaded.
template <class F>
bool find(void* library, const char* name, F*& function) {
  if (library != nullptr) function = reinterpret_cast<F*>(dlsym(library, name));
  return function != nullptr;
}

Error not_installed(const File& file, const char* library) {
  return make_error(Status::not_supported,
                    "{}: is compressed, and {} is not installed; install it or decompress the file", file.name(),
                    library);
}

struct Zlib {
  decltype(inflateInit2_)* init = nullptr;
  decltype(::inflate)* inflate = nullptr;
  decltype(::inflateReset)* reset = nullptr;
  decltype(inflateEnd)* end = nullptr;

  static const Zlib* get() {
    static const Zlib* const zlib = []() -> const Zlib* {
      static Zlib functions;
      void* library = dlopen("libz.so.1", RTLD_NOW);
      const bool found = find(library, "inflateInit2_", functions.init) &&
                         find(library, "inflate", functions.inflate) &&
                         find(library, "inflateReset", functions.reset) && find(library, "inflateEnd", functions.end);
      return found ? &functions : nullptr;
    }();
    return zlib;
  }
};

struct Zstd {
  decltype(ZSTD_createDStream)* create = nullptr;
  decltype(ZSTD_freeDStream)* free = nullptr;
  decltype(ZSTD_DCtx_setParameter)* set = nullptr;
  decltype(ZSTD_decompressStream)* decompress = nullptr;
  decltype(ZSTD_isError)* is_error = nullptr;
  decltype(ZSTD_getErrorName)* error_name = nullptr;
  decltype(ZSTD_getErrorCode)* error_code = nullptr;

  static const Zstd* get() {
    static const Zstd* const zstd = []() -> const Zstd* {
      static Zstd functions;
      void* library = dlopen("libzstd.so.1", RTLD_NOW);
      const bool found = find(library, "ZSTD_createDStream", functions.create) &&
                         find(library, "ZSTD_freeDStream", functions.free) &&
                         find(library, "ZSTD_DCtx_setParameter", functions.set) &&
                         find(library, "ZSTD_decompressStream", functions.decompress) &&
                         find(library, "ZSTD_isError", functions.is_error) &&
                         find(library, "ZSTD_getErrorName", functions.error_name) &&
                         find(library, "ZSTD_getErrorCode", functions.error_code);
      return found ? &functions : nullptr;
    }();
    return zstd;
  }
};

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(const File& file) : file_(file) {}
  Result<std::size_t> read(void* to, std::size_t size) override {
    auto count = file_.read(to, size);
    if (count) consumed_ += *count;
    return count;
  }
  std::uint64_t consumed() const noexcept override { return consumed_; }

 private:
  const File& file_;
  std::uint64_t consumed_ = 0;
};

/// Common part of the decompressors: a buffer of compressed bytes.
class CompressedStream : public ByteStream {
 public:
  explicit CompressedStream(const File& file) : file_(file), buffer_(compressed_bytes) {}
  std::uint64_t consumed() const noexcept override { return consumed_; }

 protected:
  /// Fills the buffer again; false at the end of the file.
  Result<bool> refill() {
    const auto count = file_.read(buffer_.data(), buffer_.size());
    if (!count) return count.error();
    filled_ = *count;
    consumed_ += *count;
    return *count > 0;
  }
  Error damaged(const char* reason) const {
    return make_error(Status::bad_format, "{}: damaged near byte {} of the compressed file: {}", file_.name(),
                      consumed_, reason);
  }

  const File& file_;
  std::vector<unsigned char> buffer_;
  std::size_t filled_ = 0;

 private:
  std::uint64_t consumed_ = 0;
};

class GzipStream : public CompressedStream {
 public:
  GzipStream(const File& file, const Zlib& zlib) : CompressedStream(file), zlib_(zlib) {
    constexpr int gzip_window = 15 + 16;
    ready_ = zlib_.init(&state_, gzip_window, ZLIB_VERSION, static_cast<int>(sizeof state_)) == Z_OK;
  }
  ~GzipStream() override {
    if (ready_) zlib_.end(&state_);
  }

  Result<std::size_t> read(void* to, std::size_t size) override {
    if (!ready_) return make_error(Status::out_of_memory, "{}: no memory to decompress", file_.name());
    state_.next_out = static_cast<Bytef*>(to);
    state_.avail_out = static_cast<uInt>(size);
    while (state_.avail_out > 0) {
      if (state_.avail_in == 0) {
        const auto more = refill();
        if (!more) return more.error();
        if (!*more && within_member_) return damaged("it ends too early");
        if (!*more) break;
        state_.next_in = buffer_.data();
        state_.avail_in = static_cast<uInt>(filled_);
      }
      within_member_ = true;
      const int result = zlib_.inflate(&state_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {  // another member may follow
        within_member_ = false;
        zlib_.reset(&state_);
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        return damaged(state_.msg != nullptr ? state_.msg : "unknown content");
      }
    }
    return size - state_.avail_out;
  }

 private:
  const Zlib& zlib_;
  z_stream state_ = {};
  bool ready_ = false;
  bool within_member_ = false;
};

class ZstdStream : public CompressedStream {
 public:
  ZstdStream(const File& file, const Zstd& zstd) : CompressedStream(file), zstd_(zstd), state_(zstd.create()) {
    if (state_ != nullptr) zstd_.set(state_, ZSTD_d_windowLogMax, most_window_log(file));
  }
  ~ZstdStream() override { zstd_.free(state_); }

  Result<std::size_t> read(void* to, std::size_t size) override {
    if (state_ == nullptr) return make_error(Status::out_of_memory, "{}: no memory to decompress", file_.name());
    ZSTD_outBuffer output = {to, size, 0};
    while (output.pos < output.size) {
      if (input_.pos == input_.size) {
        const auto more = refill();
        if (!more) return more.error();
        if (!*more && within_frame_ && output.pos == 0) return damaged("it ends too early");
        if (!*more) break;
        input_ = {buffer_.data(), filled_, 0};
      }
      const auto wanted = zstd_.decompress(state_, &output, &input_);
      if (zstd_.is_error(wanted) != 0) return refused(wanted);
      within_frame_ = wanted != 0;
    }
    return output.pos;
  }

 private:
  /// The largest window that a frame may ask for: up to 128 times the file, from 2 MiB (zstd's default for what comes
  /// through a pipe) to 128 MiB (its own limit). So a few bytes cannot ask for much memory.
  static int most_window_log(const File& file) {
    return std::clamp(static_cast<int>(std::bit_width(file.size_bytes())) + 6, 21, 27);
  }

  Error refused(std::size_t result) const {
    if (zstd_.error_code(result) != ZSTD_error_frameParameter_windowTooLarge) return damaged(zstd_.error_name(result));
    return make_error(
        Status::not_supported,
        "{}: is compressed with a larger window than a file of its size may have; decompress it first, with "
        "`zstd -d --long=31`",
        file_.name());
  }

  const Zstd& zstd_;
  ZSTD_DStream* state_;
  ZSTD_inBuffer input_ = {nullptr, 0, 0};
  bool within_frame_ = false;
};

}  // namespace

Result<File> File::open(const std::string& name) {
  File file;
  file.name_ = name;
  file.descriptor_ = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.descriptor_ < 0) return file.error("cannot be opened");
  struct stat status = {};
  if (fstat(file.descriptor_, &status) != 0) return file.error("cannot be examined");
  if (S_ISDIR(status.st_mode)) return make_error(Status::invalid_argument, "{}: is a directory, not a file", name);
  file.regular_ = S_ISREG(status.st_mode);
  if (file.regular_) file.size_bytes_ = static_cast<std::uint64_t>(status.st_size);
  return file;
}

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

File::File(File&& other) noexcept
    : name_(std::move(other.name_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      regular_(other.regular_),
      size_bytes_(other.size_bytes_) {}

File& File::operator=(File&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(regular_, other.regular_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

Error File::error(const char* what) const {
  return make_error(status_of_errno(), "{}: {}: {}", name_, what, std::strerror(errno));
}

Result<std::size_t> File::read_at(std::uint64_t offset, void* to, std::size_t size) const {
  std::size_t done = 0;
  while (done < size) {
    const auto count =
        pread(descriptor_, static_cast<char*>(to) + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return error("cannot be read");
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

Result<void> File::read_all_at(std::uint64_t offset, void* to, std::size_t size) const {
  const auto count = read_at(offset, to, size);
  if (!count) return count.error();
  if (*count == size) return {};
  return make_error(Status::bad_format, "{}: ends at byte {}, although more must follow", name_, offset + *count);
}

Result<std::size_t> File::read(void* to, std::size_t size) const {
  for (;;) {
    const auto count = ::read(descriptor_, to, size);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) return error("cannot be read");
  }
}

bool is_regular_file(const std::string& name) noexcept {
  struct stat status = {};
  return stat(name.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

Result<Compression> compression_of(const File& file) {
  unsigned char start[4] = {};
  if (!file.regular()) return Compression::none;
  const auto count = file.read_at(0, start, sizeof start);
  if (!count) return count.error();
  if (*count >= 2 && start[0] == 0x1f && start[1] == 0x8b) return Compression::gzip;
  constexpr unsigned char zstd_magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
  if (*count == 4 && std::memcmp(start, zstd_magic, 4) == 0) return Compression::zstd;
  return Compression::none;
}

Result<std::unique_ptr<ByteStream>> open_stream(const File& file, Compression compression) {
  if (compression == Compression::gzip) {
    const auto* zlib = Zlib::get();
    if (zlib == nullptr) return not_installed(file, "zlib (libz.so.1)");
    return std::unique_ptr<ByteStream>(std::make_unique<GzipStream>(file, *zlib));
  }
  if (compression == Compression::zstd) {
    const auto* zstd = Zstd::get();
    if (zstd == nullptr) return not_installed(file, "zstd (libzstd.so.1)");
    return std::unique_ptr<ByteStream>(std::make_unique<ZstdStream>(file, *zstd));
  }
  return std::unique_ptr<ByteStream>(std::make_unique<PlainStream>(file));
}

}  // namespace smelt::graph
