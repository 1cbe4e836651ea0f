#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace sluice {

/// What a file holds, short: its length and the XXH3-128 of its bytes as 32 hex digits.
struct FileSummary {
  int64_t bytes = 0;
  std::string hash;
  bool operator==(const FileSummary&) const = default;
};

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
  struct Hash;
  std::filesystem::path path_;
  int descriptor_;
  int64_t bytes_ = 0;
  std::unique_ptr<Hash> hash_;
};

/// Reads a file whole to summarize it. Errors  DataError when it cannot be read.
FileSummary summarize_file(const std::filesystem::path& path);

/// The whole of a small file. Errors  DataError when it cannot be read.
std::string read_file(const std::filesystem::path& path);

/// Writes a whole file, synced.
FileSummary write_file(const std::filesystem::path& path, const std::string& text);

/// Makes the names in a folder survive a power cut. Errors  ResourceError.
void sync_folder(const std::filesystem::path& folder);

/// XXH3-128 of bytes in memory, as 32 hex digits.
std::string hash_of(const void* data, size_t bytes);

}  // namespace sluice
