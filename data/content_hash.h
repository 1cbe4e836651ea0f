#pragma once
#include "core/file/hash.h"

namespace sluice::data {

/// The hash over the hashes of each of a list of byte strings: the name under which something made from them is kept. {"ab", "c"} and
/// {"a", "bc"} differ.
class ContentHash {
 public:
  ContentHash& add(std::string_view bytes) {
    hashes_ += hash_of(bytes);
    return *this;
  }
  std::string text() const { return hash_of(hashes_); }

 private:
  std::string hashes_;
};

}  // namespace sluice::data
