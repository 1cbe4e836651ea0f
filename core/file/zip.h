#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/file/byte_reader.h"

struct zip;

namespace sluice {

/// A zip file and its members, stored or deflated. What a member claims to hold is possible for the bytes that the file has for it, so it
/// may be allocated: at most 1032 times as many, which is what deflate reaches.
/// Errors   DataError naming the file, and the member, for one that is damaged or packed in another way; UsageError in a build without
///          libzip.
/// Threads  one.
class ZipFile {
 public:
  explicit ZipFile(const std::filesystem::path& path);

  struct Member {
    std::string name;
    int64_t bytes = 0;  ///< unpacked
  };
  const std::vector<Member>& members() const { return members_; }
  /// A member's bytes, unpacked as they are read. Its checksum is compared when the end is read. Lives as long as it likes.
  ByteReader open(size_t member) const;

 private:
  std::string name_;
  std::shared_ptr<::zip> archive_;
  std::vector<Member> members_;
};

/// A member that is written: its bytes in pieces, which lie elsewhere.
struct ZipContent {
  std::string name;
  std::vector<std::string_view> pieces;
};

/// Writes a zip file, synced, with members stored and without a date: equal contents give equal files.
/// Errors  ResourceError naming path and reason; UsageError for a name that is not UTF-8, has a zero byte or is longer than 65535 bytes, and
///         in a build without libzip.
void write_zip(const std::filesystem::path& path, const std::vector<ZipContent>& contents);

}  // namespace sluice
