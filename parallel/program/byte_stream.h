#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::parallel {

/// What one process tells another, as bytes that are the same on every machine: a magic word and a version, then fields in an order that
/// both ends know. Integers are zig-zag varints (LEB128), doubles their eight bytes, the lowest first.
/// Threads  one.
class ByteWriter {
 public:
  ByteWriter(std::string_view magic, int64_t version);
  void number(int64_t value);
  void flag(bool value) { number(value ? 1 : 0); }
  void real(double value);
  void count(std::size_t items) { number(static_cast<int64_t>(items)); }
  template <class Enum>
  void choice(Enum value) {
    number(static_cast<int64_t>(value));
  }
  void text(std::string_view value);
  void integers(const std::vector<int>& values);
  void flags(const std::vector<bool>& values);  ///< eight in a byte
  std::string take() && { return std::move(bytes_); }

 private:
  void fixed(uint64_t value, int bytes);
  std::string bytes_;
};

/// Reads what a ByteWriter wrote. Bytes that no writer writes (a longer form of a number, a flag of 2) are refused, too, so that equal
/// fields have equal bytes; and a list takes no more memory than its items' bytes justify.
/// Errors   DataError naming the byte, what it needs there and what it has.
/// Threads  one. The bytes live as long as this.
class ByteReader {
 public:
  /// `name`  what messages call it: "program".
  ByteReader(const char* name, std::string_view bytes, std::string_view magic, int64_t version);
  int64_t number();
  int integer();  ///< that fits in an int
  bool flag();
  double real();
  /// Of items that take `least_bytes` or more each.
  std::size_t count(std::size_t least_bytes);
  /// `last`  the enumerators run from 0 to this one.
  template <class Enum>
  Enum choice(Enum last) {
    return static_cast<Enum>(below(static_cast<int64_t>(last) + 1, "a choice"));
  }
  std::string text();
  std::vector<int> integers();
  std::vector<bool> flags();
  /// Nothing may be left.
  void finish() const;

 private:
  std::size_t left() const { return bytes_.size() - place_; }
  uint8_t byte();
  int64_t below(int64_t end, const char* what);
  uint64_t fixed(int bytes);
  [[noreturn]] void refuse(std::size_t place, const std::string& needed, const std::string& came) const;

  const char* name_;
  std::string_view bytes_;
  std::size_t place_ = 0;
};

}  // namespace sluice::parallel
