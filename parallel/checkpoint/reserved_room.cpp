#include "parallel/checkpoint/reserved_room.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "core/error.h"
#include "core/file/file.h"

namespace sluice::parallel {

namespace fs = std::filesystem;

namespace {

int64_t free_bytes(const fs::path& folder) {
  std::error_code ignored;
  const auto space = fs::space(folder, ignored);
  return static_cast<int64_t>(space.available);
}

int open_without_name(const fs::path& name) {
  const int file = open(name.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file >= 0) unlink(name.c_str());
  return file;
}

/// The system's reason why the bytes cannot be reserved, or 0.
int reserve(int file, const fs::path& folder, int64_t bytes) {
  if (file < 0) return errno;
  while (bytes > 0 && fallocate(file, 0, 0, bytes) != 0) {
    if (errno == EINTR) continue;
    if (errno != EOPNOTSUPP && errno != ENOSYS) return errno;
    return free_bytes(folder) < bytes ? ENOSPC : 0;
  }
  return 0;
}

}  // namespace

ReservedRoom::ReservedRoom(const std::string& file, int64_t bytes) : file_(open_without_name(file)) {
  const fs::path folder = fs::path(file).parent_path();
  const int reason = reserve(file_, folder, bytes);
  if (reason == 0) return;
  const int64_t free = free_bytes(folder);
  if (file_ >= 0) close(file_);
  throw ResourceError(join(folder.string(), ": needs ", bytes, " bytes of room for a checkpoint, the disk has ", free, " free: ",
                           reason_and_cure_of_write(reason), "; or choose a folder on another disk (LoopOptions::output, [output] dir)"));
}

ReservedRoom::~ReservedRoom() {
  if (file_ >= 0) close(file_);
}

}  // namespace sluice::parallel
