// A library to preload into a rank: it sees what the process does to the files of one folder, writes it down, and makes one call fail.
//
// FILE_FAULTS_FOLDER  the folder; what happens elsewhere is neither counted nor changed
// FILE_FAULTS_LOG     a file, outside that folder, to which all ranks append each call, in the one order in which they happened
// FILE_FAULTS_RANK    the rank whose call fails
// FILE_FAULTS_CALLS   the kinds of calls that count, as "open,write"; all where it is not set
// FILE_FAULTS_AT      the number of the call, from 1
// FILE_FAULTS_DO      kill-before, kill-after, exit-before or stop-before: of the process. no-space: the call fails for want of room.
//                     no-space-from: so do all calls after it.
// FILE_FAULTS_MARK    a file, outside that folder, that is made then
// A record is a line "rank process call descriptor offset length path other-path done|failed", with tabs between, and then as many bytes as `length`
// says. Calls: open (made and emptied files, too), mkdir, write, allocate, fsync, rename, unlink, rmdir.
#undef _FILE_OFFSET_BITS  // with which open and others are open64, so that only one of the two could be defined
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>

namespace {

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

using Open = int(const char*, int, ...);
using Write = ssize_t(int, const void*, size_t);

/// (With operator+, g++ 12 warns of an overlap that is none.)
std::string joined(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const std::string_view part : parts) all.append(part);
  return all;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

std::string rank_of_process() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"})
    if (const std::string rank = variable(name); !rank.empty()) return rank;
  return "0";
}

/// What one call does, for the log.
struct Call {
  const char* name;
  int descriptor = -1;
  long offset = 0;
  std::string path{}, other_path{};
  std::string_view content{};
};

class Faults {
 public:
  bool watches(std::string_view path) const {
    return !folder_.empty() && path.starts_with(folder_) && (path.size() == folder_.size() || path[folder_.size()] == '/');
  }
  /// By the file, too: the C library closes descriptors of folders by itself, and the next socket may get their number.
  bool watches(int descriptor) const {
    return descriptor >= 0 && descriptor < kMostDescriptors && files_[descriptor] != 0 && files_[descriptor] == file_of(descriptor);
  }
  void watch(int descriptor) {
    if (descriptor >= 0 && descriptor < kMostDescriptors) files_[descriptor] = file_of(descriptor);
  }

  /// The call, with its fault. `act` returns -1 for an error.
  template <class Act>
  auto around(Call call, const Act& act) {
    using Result = decltype(act());
    std::lock_guard lock(mutex_);
    const bool counts = is_victim_ && (calls_.empty() || calls_.find(joined({",", call.name, ","})) != std::string::npos);
    const long number = counts ? ++count_ : 0;
    const bool is_here = counts && number == at_;
    if (is_here && !mark_.empty()) next<int(int)>("close")(next<Open>("open")(mark_.c_str(), O_WRONLY | O_CREAT, 0644));
    if (is_here && what_ == "kill-before") kill(getpid(), SIGKILL);
    if (is_here && what_ == "exit-before") std::exit(7);
    if (is_here && what_ == "stop-before") raise(SIGSTOP);
    if ((is_here && what_ == "no-space") || (counts && number >= at_ && what_ == "no-space-from")) {
      errno = ENOSPC;
      return Result{-1};
    }
    if (log_ >= 0) flock(log_, LOCK_EX);  // one order for all ranks
    const Result result = act();
    const int error = errno;
    log(call, static_cast<long>(result));
    if (log_ >= 0) flock(log_, LOCK_UN);
    if (is_here && what_ == "kill-after") kill(getpid(), SIGKILL);
    errno = error;
    return result;
  }

 private:
  static ino_t file_of(int descriptor) {
    struct stat status {};
    return fstat(descriptor, &status) == 0 ? status.st_ino : 0;
  }

  void log(Call& call, long result) const {
    if (log_ < 0) return;
    if (std::string_view(call.name) == "open") call.descriptor = static_cast<int>(result);
    if (std::string_view(call.name) == "write") call.content = call.content.substr(0, static_cast<size_t>(std::max(0L, result)));
    std::string record = rank_;
    for (const std::string& word :
         {std::to_string(getpid()), std::string(call.name), std::to_string(call.descriptor), std::to_string(call.offset),
          std::to_string(call.content.size()), call.path, call.other_path, std::string(result < 0 ? "failed" : "done")})
      record += joined({"\t", word});
    record += "\n";
    record += call.content;
    for (size_t done = 0; done < record.size();) {
      const ssize_t written = next<Write>("write")(log_, record.data() + done, record.size() - done);
      if (written < 0) std::abort();
      done += static_cast<size_t>(written);
    }
  }

  static constexpr int kMostDescriptors = 4096;
  const std::string folder_ = variable("FILE_FAULTS_FOLDER"), rank_ = rank_of_process(), what_ = variable("FILE_FAULTS_DO"),
                    mark_ = variable("FILE_FAULTS_MARK");
  const std::string calls_ = variable("FILE_FAULTS_CALLS").empty() ? "" : joined({",", variable("FILE_FAULTS_CALLS"), ","});
  const bool is_victim_ = rank_ == variable("FILE_FAULTS_RANK");
  const long at_ = std::atol(variable("FILE_FAULTS_AT").c_str());
  const int log_ = variable("FILE_FAULTS_LOG").empty()
                       ? -1
                       : next<Open>("open")(variable("FILE_FAULTS_LOG").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  std::array<std::atomic<ino_t>, kMostDescriptors> files_{};  ///< by descriptor; 0 for one that is not watched
  std::mutex mutex_;
  long count_ = 0;
};

Faults& faults() {
  static Faults* const one = new Faults;  // never destroyed: files are written to the last
  return *one;
}

std::string full_path(int folder, const char* path) {
  if (path[0] == '/') return path;
  char start[4096] = {};
  if (folder == AT_FDCWD) {
    if (!getcwd(start, sizeof start)) return path;
  } else if (readlink(joined({"/proc/self/fd/", std::to_string(folder)}).c_str(), start, sizeof start - 1) < 0) {
    return path;
  }
  return joined({start, "/", path});
}

template <class Act>
int open_watched(int folder, const char* path, int flags, const Act& act) {
  const std::string full = full_path(folder, path);
  if (!faults().watches(full)) return act();
  const int descriptor = faults().around({.name = "open", .offset = flags, .path = full}, act);
  faults().watch(descriptor);
  return descriptor;
}

mode_t mode_of(int flags, va_list arguments) { return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0; }

template <class Act>
int on_path(const char* name, int folder, const char* path, const Act& act) {
  const std::string full = full_path(folder, path);
  return faults().watches(full) ? faults().around({.name = name, .path = full}, act) : act();
}

template <class Act>
auto on_descriptor(const char* name, int descriptor, std::string_view content, const Act& act) {
  if (!faults().watches(descriptor)) return act();
  return faults().around({.name = name, .descriptor = descriptor, .offset = lseek(descriptor, 0, SEEK_CUR), .content = content}, act);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_watched(AT_FDCWD, path, flags, [&] { return next<Open>("open")(path, flags, mode); });
}

int open64(const char* path, int flags, ...) __attribute__((alias("open")));

int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_watched(folder, path, flags, [&] { return next<int(int, const char*, int, ...)>("openat")(folder, path, flags, mode); });
}

int openat64(int folder, const char* path, int flags, ...) __attribute__((alias("openat")));

ssize_t write(int descriptor, const void* data, size_t bytes) {
  return on_descriptor("write", descriptor, {static_cast<const char*>(data), bytes},
                       [&] { return next<Write>("write")(descriptor, data, bytes); });
}

int fsync(int descriptor) {
  return on_descriptor("fsync", descriptor, {}, [&] { return next<int(int)>("fsync")(descriptor); });
}

int fallocate(int descriptor, int mode, off_t offset, off_t bytes) {
  return on_descriptor("allocate", descriptor, {},
                       [&] { return next<int(int, int, off_t, off_t)>("fallocate")(descriptor, mode, offset, bytes); });
}

int fallocate64(int descriptor, int mode, off_t offset, off_t bytes) __attribute__((alias("fallocate")));

int mkdir(const char* path, mode_t mode) {
  return on_path("mkdir", AT_FDCWD, path, [&] { return next<int(const char*, mode_t)>("mkdir")(path, mode); });
}

int unlink(const char* path) {
  return on_path("unlink", AT_FDCWD, path, [&] { return next<int(const char*)>("unlink")(path); });
}

int rmdir(const char* path) {
  return on_path("rmdir", AT_FDCWD, path, [&] { return next<int(const char*)>("rmdir")(path); });
}

int remove(const char* path) {
  struct stat status {};
  const bool is_folder = lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
  return on_path(is_folder ? "rmdir" : "unlink", AT_FDCWD, path, [&] { return next<int(const char*)>("remove")(path); });
}

int unlinkat(int folder, const char* path, int flags) {
  return on_path((flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink", folder, path,
                 [&] { return next<int(int, const char*, int)>("unlinkat")(folder, path, flags); });
}

int rename(const char* from, const char* to) {
  const auto act = [&] { return next<int(const char*, const char*)>("rename")(from, to); };
  const std::string full = full_path(AT_FDCWD, from), other = full_path(AT_FDCWD, to);
  return faults().watches(full) || faults().watches(other) ? faults().around({.name = "rename", .path = full, .other_path = other}, act)
                                                           : act();
}

}  // extern "C"
