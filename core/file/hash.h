#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace sluice {

/// XXH3-128 of bytes that come in pieces: proves files whole, names cached data, and compares weights. Where the pieces are cut does not
/// matter.
/// Text     32 hexadecimal digits in xxHash's canonical order, the high half first: what `xxhsum -H2` prints.
/// Threads  one.
/// Source   xxHash 0.8, XXH3 with its default secret and no seed.
class Hash {
 public:
  Hash();
  Hash& add(const void* data, size_t bytes);
  std::string text() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

/// The same of bytes that are all there.
std::string hash_of(std::string_view bytes);

}  // namespace sluice
