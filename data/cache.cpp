#include "data/cache.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "core/error.h"

namespace sluice::data {

namespace fs = std::filesystem;

namespace {

std::string hash_text(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  std::array<char, 33> digits;
  std::snprintf(digits.data(), digits.size(), "%016" PRIx64 "%016" PRIx64, hash.high64, hash.low64);
  return digits.data();
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

ContentHash& ContentHash::add(std::string_view bytes) {
  hashes_ += hash_text(bytes);
  return *this;
}

std::string ContentHash::text() const { return hash_text(hashes_); }

void write_atomically(const fs::path& path, std::string_view bytes) {
  static std::atomic<int> count{0};
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  require<ResourceError>(!error, path.parent_path().string(), ": cannot make the folder: ", error.message(), "; choose another one");

  const std::string temporary = join(path.string(), ".", ::getpid(), ".", count++, ".tmp");
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  require<ResourceError>(file >= 0, temporary, ": cannot make the file: ", std::strerror(errno), "; choose another folder");
  bool written = write_all(file, bytes);
  written = ::close(file) == 0 && written;
  const int reason = errno;
  if (written) fs::rename(temporary, path, error);
  if (written && !error) return;
  ::unlink(temporary.c_str());
  throw ResourceError(join(path.string(), ": cannot write the file: ", written ? error.message() : std::strerror(reason),
                           "; free some space or choose another folder"));
}

}  // namespace sluice::data
