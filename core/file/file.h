#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "core/file/byte_reader.h"
#include "core/file/file_summary.h"
#include "core/file/hash.h"

namespace sluice {

/// The system's reason for a failed write (an errno), and what the user can do about it: the end of an error.
std::string reason_and_cure_of_write(int error);

/// A new file that is on the disk when finish() returns.
/// Errors   ResourceError naming the path, the system's reason and the cure. A writer that is destroyed before finish() leaves a part of
///          the file behind: write into a temporary folder and rename it.
/// Threads  one.
class FileWriter {
 public:
  explicit FileWriter(std::filesystem::path path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(const void* data, size_t bytes);
  /// Writes out, syncs and closes.
  FileSummary finish();

 private:
  std::filesystem::path path_;
  int descriptor_;
  int64_t bytes_ = 0;
  Hash hash_;
};

/// Reads a file whole to summarize it. Errors  DataError when it cannot be read.
FileSummary summarize_file(const std::filesystem::path& path);

/// The whole of a regular file. Errors  DataError for one that is missing, unreadable or not a regular file.
std::string read_file(const std::filesystem::path& path);

/// Writes a whole file, synced.
FileSummary write_file(const std::filesystem::path& path, std::string_view text);

/// A regular file to read from its beginning, and its bytes. Errors  as read_file.
std::pair<ByteReader, int64_t> open_bytes(const std::filesystem::path& path);

/// Writes a whole file so that every reader, also while others write it, sees the old one or the new one: temporary file, then rename.
/// Makes the folder of the file. A link stays, and the file behind it is replaced, which keeps its permissions; a device, a pipe or a file
/// that is mounted there is written as it is. A kill leaves the old file, and perhaps the temporary one beside it: its name, random numbers,
/// ".tmp". A write of that file an hour later removes it: who writes one has a lock (flock) on it.
/// Errors  ResourceError, or what `write` throws; the temporary file is removed then.
void write_atomically(const std::filesystem::path& path, std::string_view text);
/// The same with a function that writes the file under the temporary name.
void write_atomically(const std::filesystem::path& path, const std::function<void(const std::filesystem::path& temporary)>& write);

/// The same in a folder that is there, for a file that a user names: a misspelt folder and a file that is read-only are errors.
void replace_file(const std::filesystem::path& path, std::string_view text);

/// The file that a name stands for, which may not be there yet: behind links. Errors  ResourceError for links that lead in a circle.
std::filesystem::path file_behind_links(const std::filesystem::path& name);

/// Why replace_file cannot write there: an errno, or 0. Leaves nothing behind.
int why_not_replaceable(const std::filesystem::path& path);

/// Makes a file's bytes survive a power cut. Errors  ResourceError.
void sync_file(const std::filesystem::path& path);

/// Makes the names in a folder survive a power cut. Errors  ResourceError.
void sync_folder(const std::filesystem::path& folder);

}  // namespace sluice
