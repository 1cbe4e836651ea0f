#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace sluice::data {

/// XXH3-128 over the XXH3-128 of each of a list of byte strings: the name under which something made from them is kept. {"ab", "c"} and
/// {"a", "bc"} differ.
class ContentHash {
 public:
  ContentHash& add(std::string_view bytes);
  std::string text() const;  ///< 32 hexadecimal digits

 private:
  std::string hashes_;
};

/// Writes a file so that every reader sees the old one or the whole new one: temporary file, then rename. It does not wait for the disk:
/// what is kept here is checksummed and can be made again. Makes the folder of the file.
/// Errors  ResourceError when the folder cannot be made or written, or the disk is full; the temporary file is removed then.
void write_atomically(const std::filesystem::path& path, std::string_view bytes);

}  // namespace sluice::data
