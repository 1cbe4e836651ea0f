#pragma once
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// All errors of Sluice. The kinds are the different things that a caller does about them; the program maps them to exit codes.
struct Error : std::runtime_error {
  using runtime_error::runtime_error;
};
/// The caller's mistake, of code or config: fix the call. Exit code 2.
struct UsageError : Error {
  using Error::Error;
};
/// A file (data set, tokenizer, checkpoint) is missing, damaged or of another kind. Exit code 3.
struct DataError : Error {
  using Error::Error;
};
/// Memory, disk or another resource ran out. Exit code 4.
struct ResourceError : Error {
  using Error::Error;
};
/// A device's library failed: the state of the process is unsure. Exit code 1.
struct DeviceError : Error {
  using Error::Error;
};
/// A peer or a link failed or kept silent: rebuild the group. Exit code 5.
struct CommError : Error {
  using Error::Error;
};

/// Writes a part of a message: what `describe` says of it where its type has one, as a tensor whose << prints all values, else what << prints.
template <class Part>
void write_message_part(std::ostream& out, const void* address) {
  const Part& part = *static_cast<const Part*>(address);
  if constexpr (requires { describe(out, part); })
    describe(out, part);
  else
    out << part;
}

/// A part of a message whose type is forgotten, so that those who throw do not compile a string stream.
struct MessagePart {
  const void* address;
  void (*write)(std::ostream& out, const void* address);
};
std::string joined(std::initializer_list<MessagePart> parts);

/// The parts of a message, joined with nothing between them.
template <class... Parts>
std::string join(const Parts&... parts) {
  return joined({MessagePart{&parts, write_message_part<Parts>}...});
}

/// Throws `E` with the joined parts unless `ok`. The message is built only on failure, in the form
/// "subject: what was needed, what came, what to do".
template <class E = UsageError, class... Parts>
void require(bool ok, const Parts&... parts) {
  if (!ok) throw E(join(parts...));
}

/// The candidate with the smallest edit distance to `word`, for "did you mean"; empty when none is near.
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace sluice
