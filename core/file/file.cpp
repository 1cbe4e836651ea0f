#include "core/file/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <regex>
#include <vector>

#include "core/error.h"

namespace sluice {

namespace {

[[noreturn]] void throw_write_error(const std::filesystem::path& path) {
  const int reason = errno;
  throw ResourceError(join(path.string(), ": cannot be written: ", reason_and_cure_of_write(reason)));
}

std::ifstream open_to_read(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  require<DataError>(std::filesystem::exists(status), path.string(), ": there is no such file or folder",
                     error.value() == EACCES ? " that may be read" : "", "; check the path");
  require<DataError>(std::filesystem::is_regular_file(status), path.string(), ": needs a regular file, not a folder, pipe or device");
  std::ifstream in(path, std::ios::binary);
  require<DataError>(in.is_open(), path.string(), ": cannot open the file: ", std::strerror(errno));
  return in;
}

void require_read(const std::filesystem::path& path, const std::ifstream& in) {
  require<DataError>(!in.bad(), path.string(), ": cannot read the file: ", std::strerror(errno));
}

}  // namespace

std::string reason_and_cure_of_write(int error) {
  const char* cure = "choose a folder that can be written";
  if (error == ENOSPC || error == EDQUOT) cure = "free some disk space, or save less often or keep fewer ([output] save_every, keep)";
  if (error == EFBIG) cure = "raise the limit of a file's size (ulimit -f), or choose a disk whose files may be larger";
  return join(std::strerror(error), "; ", cure);
}

FileWriter::FileWriter(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0) throw_write_error(path_);
}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) close(descriptor_);
}

void FileWriter::write(const void* data, size_t bytes) {
  hash_.add(data, bytes);
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
  return {bytes_, hash_.text()};
}

FileSummary summarize_file(const std::filesystem::path& path) {
  std::ifstream in = open_to_read(path);
  Hash hash;
  FileSummary summary;
  std::vector<char> block(1 << 20);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())), in.gcount() > 0) {
    hash.add(block.data(), static_cast<size_t>(in.gcount()));
    summary.bytes += in.gcount();
  }
  require_read(path, in);
  summary.hash = hash.text();
  return summary;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in = open_to_read(path);
  in.seekg(0, std::ios::end);  // of what was opened: the name may be gone by now
  std::string text(static_cast<size_t>(std::max<std::streamoff>(0, in.tellg())), '\0');
  in.seekg(0);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  require_read(path, in);
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

std::pair<ByteReader, int64_t> open_bytes(const std::filesystem::path& path) {
  const auto in = std::make_shared<std::ifstream>(open_to_read(path));
  in->seekg(0, std::ios::end);
  const int64_t bytes = std::max<int64_t>(0, in->tellg());
  in->seekg(0);
  const auto read = [path, in](void* into, size_t count) {
    in->read(static_cast<char*>(into), static_cast<std::streamsize>(count));
    require_read(path, *in);
    return static_cast<size_t>(in->gcount());
  };
  return {read, bytes};
}

FileSummary write_file(const std::filesystem::path& path, std::string_view text) {
  FileWriter file(path);
  file.write(text.data(), text.size());
  return file.finish();
}

void write_atomically(const std::filesystem::path& path, std::string_view text) {
  write_atomically(path, [&](const std::filesystem::path& temporary) { write_file(temporary, text); });
}

std::filesystem::path file_behind_links(const std::filesystem::path& name) {
  constexpr int kMostLinks = 40;  // as Linux follows
  std::filesystem::path path = name;
  std::error_code error;
  for (int links = 0; std::filesystem::is_symlink(path, error); ++links) {
    require<ResourceError>(links < kMostLinks, name.string(), ": is a link that leads back to itself; choose another file");
    const auto next = std::filesystem::read_symlink(path, error);
    require<ResourceError>(!error, name.string(), ": cannot follow the link: ", error.message(), "; choose another file");
    path = path.parent_path() / next;  // which is `next` alone where that is absolute
  }
  return path;
}

namespace {

/// Whether it is a device or a pipe, which nothing may be renamed over.
bool is_written_in_place(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) && !std::filesystem::is_directory(status);
}

/// The numbers of processes are not enough to tell names apart: containers and machines that share a folder have the same ones.
std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  std::random_device random;
  return join(path.string(), ".", random(), "-", random(), ".tmp");
}

/// Whether a name is one that temporary_beside() gives.
bool is_temporary_of(const std::string& file, const std::string& name) {
  static const std::regex numbers("\\.[0-9]+-[0-9]+\\.tmp");
  return name.starts_with(file) && std::regex_match(name.begin() + static_cast<std::ptrdiff_t>(file.size()), name.end(), numbers);
}

/// Takes away a temporary file that nobody writes: its writer has it locked, or, where locks do not reach other machines, has written to it
/// within the hour.
void remove_abandoned(const std::filesystem::path& temporary) {
  constexpr time_t kMostSecondsBetweenWrites = 3600;
  const int file = open(temporary.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return;
  struct stat about {};
  const bool is_ours = flock(file, LOCK_EX | LOCK_NB) == 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode);
  if (is_ours && time(nullptr) - about.st_mtime > kMostSecondsBetweenWrites) unlink(temporary.c_str());
  close(file);
}

/// Those that killed processes left beside a file.
void remove_abandoned_beside(const std::filesystem::path& path) {
  std::error_code unreadable;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  for (std::filesystem::directory_iterator entry(folder, unreadable), end; !unreadable && entry != end; entry.increment(unreadable))
    if (is_temporary_of(path.filename(), entry->path().filename())) remove_abandoned(entry->path());
}

/// A temporary file while somebody writes it.
class LockedFile {
 public:
  explicit LockedFile(const std::filesystem::path& path) : descriptor_(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) throw_write_error(path);
    flock(descriptor_, LOCK_EX | LOCK_NB);  // where there are no locks, nobody gets one to take it away
  }
  ~LockedFile() { close(descriptor_); }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

 private:
  int descriptor_;
};

/// `path` is behind links. What is there keeps its permissions.
void replace(const std::filesystem::path& path, const std::function<void(const std::filesystem::path& temporary)>& write) {
  remove_abandoned_beside(path);
  const std::filesystem::path temporary = temporary_beside(path);
  const LockedFile lock(temporary);
  struct stat former;
  try {
    write(temporary);
    if (stat(path.c_str(), &former) == 0 && chmod(temporary.c_str(), former.st_mode & 0777) != 0) throw_write_error(path);
    if (rename(temporary.c_str(), path.c_str()) == 0) return;
    if (errno != EBUSY) throw_write_error(path);
    write(path);  // a mount point, such as a file that a container was given: nothing can take its place
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
  unlink(temporary.c_str());
}

}  // namespace

void write_atomically(const std::filesystem::path& name, const std::function<void(const std::filesystem::path& temporary)>& write) {
  std::error_code error;
  if (is_written_in_place(name)) return write(name);
  const std::filesystem::path path = file_behind_links(name);
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  require<ResourceError>(!error, path.parent_path().string(), ": cannot make the folder: ", error.message(), "; choose another one");
  replace(path, write);
}

int why_not_replaceable(const std::filesystem::path& name) {
  // Not opened: whoever reads a pipe takes its closing for the end of the result.
  if (is_written_in_place(name)) return access(name.c_str(), W_OK) == 0 ? 0 : errno;
  const std::filesystem::path path = file_behind_links(name), temporary = temporary_beside(path);
  if (const int there = open(path.c_str(), O_WRONLY | O_CLOEXEC); there >= 0)
    close(there);
  else if (errno != ENOENT)
    return errno;
  const int beside = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (beside < 0) return errno;
  close(beside);
  unlink(temporary.c_str());
  return 0;
}

void replace_file(const std::filesystem::path& name, std::string_view text) {
  if ((errno = why_not_replaceable(name)) != 0) throw_write_error(name);
  if (is_written_in_place(name))
    write_file(name, text);
  else
    replace(file_behind_links(name), [&](const std::filesystem::path& temporary) { write_file(temporary, text); });
}

namespace {

void sync(const std::filesystem::path& path, int flags) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (descriptor < 0) throw_write_error(path);
  const int synced = fsync(descriptor);
  close(descriptor);
  if (synced != 0) throw_write_error(path);
}

}  // namespace

void sync_file(const std::filesystem::path& path) { sync(path, 0); }

void sync_folder(const std::filesystem::path& folder) { sync(folder, O_DIRECTORY); }

}  // namespace sluice
