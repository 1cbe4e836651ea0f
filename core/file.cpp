#include "core/file.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "core/error.h"

namespace sluice {

namespace {

/// Throws the system's reason for a failed write, with what the user can do about it.
[[noreturn]] void throw_write_error(const std::filesystem::path& path) {
  const int reason = errno;
  const char* cure = "choose a folder that can be written";
  if (reason == ENOSPC || reason == EDQUOT) cure = "free some disk space, or save less often or keep fewer ([output] save_every, keep)";
  throw ResourceError(join(path.string(), ": cannot be written: ", std::strerror(reason), "; ", cure));
}

std::string hex_of(XXH128_hash_t hash) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64), static_cast<unsigned long long>(hash.low64));
  return text;
}

/// XXH3-128 of bytes that come in pieces.
class PiecewiseHash {
 public:
  PiecewiseHash() : state_(XXH3_createState(), &XXH3_freeState) { XXH3_128bits_reset(state_.get()); }
  void add(const void* data, size_t bytes) { XXH3_128bits_update(state_.get(), data, bytes); }
  std::string text() const { return hex_of(XXH3_128bits_digest(state_.get())); }

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_;
};

std::ifstream open_to_read(const std::filesystem::path& path) {
  require<DataError>(std::filesystem::is_regular_file(path), path.string(), ": needs a file, found ",
                     std::filesystem::exists(path) ? "something else" : "nothing", "; check the path");
  std::ifstream in(path, std::ios::binary);
  require<DataError>(in.good(), path.string(), ": cannot be read: ", std::strerror(errno));
  return in;
}

}  // namespace

struct FileWriter::Hash : PiecewiseHash {};

FileWriter::FileWriter(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)), hash_(std::make_unique<Hash>()) {
  if (descriptor_ < 0) throw_write_error(path_);
}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) close(descriptor_);
}

void FileWriter::write(const void* data, size_t bytes) {
  hash_->add(data, bytes);
  bytes_ += static_cast<int64_t>(bytes);
  for (const char* rest = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t written = ::write(descriptor_, rest, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_write_error(path_);
    rest += written;
    bytes -= static_cast<size_t>(written);
  }
}

FileSummary FileWriter::finish() {
  // A device such as /dev/stdout cannot be synced: EINVAL is no loss there.
  if (fsync(descriptor_) != 0 && errno != EINVAL) throw_write_error(path_);
  const int closed = close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) throw_write_error(path_);
  return {bytes_, hash_->text()};
}

FileSummary summarize_file(const std::filesystem::path& path) {
  std::ifstream in = open_to_read(path);
  PiecewiseHash hash;
  FileSummary summary;
  std::vector<char> block(1 << 20);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())), in.gcount() > 0) {
    hash.add(block.data(), static_cast<size_t>(in.gcount()));
    summary.bytes += in.gcount();
  }
  summary.hash = hash.text();
  return summary;
}

std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << open_to_read(path).rdbuf();
  return std::move(text).str();
}

FileSummary write_file(const std::filesystem::path& path, const std::string& text) {
  FileWriter file(path);
  file.write(text.data(), text.size());
  return file.finish();
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) throw_write_error(folder);
  const int synced = fsync(descriptor);
  close(descriptor);
  if (synced != 0) throw_write_error(folder);
}

std::string hash_of(const void* data, size_t bytes) { return hex_of(XXH3_128bits(data, bytes)); }

}  // namespace sluice
