#include "parallel/program/byte_stream.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "core/error.h"

namespace sluice::parallel {

namespace {

constexpr int kBitsOfByte = 8;
constexpr int kBitsOfVarint = 7;  // the eighth says that more follow

uint64_t zig_zag(int64_t value) { return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63); }
int64_t un_zig_zag(uint64_t value) { return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1); }

std::size_t bytes_of_flags(std::size_t flags) { return flags / kBitsOfByte + (flags % kBitsOfByte != 0 ? 1 : 0); }

}  // namespace

ByteWriter::ByteWriter(std::string_view magic, int64_t version) : bytes_(magic) { number(version); }

void ByteWriter::number(int64_t value) {
  uint64_t rest = zig_zag(value);
  for (; rest >= 0x80; rest >>= kBitsOfVarint) bytes_ += static_cast<char>(rest | 0x80);
  bytes_ += static_cast<char>(rest);
}

void ByteWriter::fixed(uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (kBitsOfByte * i));
}

void ByteWriter::real(double value) { fixed(std::bit_cast<uint64_t>(value), sizeof value); }

void ByteWriter::text(std::string_view value) {
  count(value.size());
  bytes_ += value;
}

void ByteWriter::integers(const std::vector<int>& values) {
  count(values.size());
  for (const int value : values) number(value);
}

void ByteWriter::flags(const std::vector<bool>& values) {
  count(values.size());
  std::string packed(bytes_of_flags(values.size()), '\0');
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i]) packed[i / kBitsOfByte] = static_cast<char>(packed[i / kBitsOfByte] | 1 << i % kBitsOfByte);
  bytes_ += packed;
}

ByteReader::ByteReader(const char* name, std::string_view bytes, std::string_view magic, int64_t version) : name_(name), bytes_(bytes) {
  if (!bytes.starts_with(magic)) refuse(0, join("the word '", magic, "'"), "another, so it is something else");
  place_ = magic.size();
  const int64_t given = number();
  if (given != version) refuse(magic.size(), join("format ", version), join("format ", given));
}

void ByteReader::refuse(std::size_t place, const std::string& needed, const std::string& came) const {
  throw DataError(join(name_, ": needs ", needed, " at byte ", place, " of ", bytes_.size(), ", got ", came,
                       "; it was cut short or damaged, or another build wrote it: install the same build on all hosts"));
}

uint8_t ByteReader::byte() {
  if (left() == 0) refuse(place_, "more", "the end");
  return static_cast<uint8_t>(bytes_[place_++]);
}

int64_t ByteReader::number() {
  const std::size_t start = place_;
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += kBitsOfVarint) {
    const uint8_t next = byte();
    const bool is_last = next < 0x80, is_padding = is_last && next == 0 && shift > 0, overflows = shift == 63 && next > 1;
    if (is_padding || overflows) break;
    value |= static_cast<uint64_t>(next & 0x7f) << shift;
    if (is_last) return un_zig_zag(value);
  }
  refuse(start, "a number of 64 bits in its shortest form", "another");
}

int64_t ByteReader::below(int64_t end, const char* what) {
  const std::size_t start = place_;
  const int64_t value = number();
  if (value < 0 || value >= end) refuse(start, join(what, " from 0 to ", end - 1), std::to_string(value));
  return value;
}

int ByteReader::integer() {
  using Limits = std::numeric_limits<int>;
  const std::size_t start = place_;
  const int64_t value = number();
  if (value < Limits::min() || value > Limits::max()) refuse(start, "a number of 32 bits", std::to_string(value));
  return static_cast<int>(value);
}

bool ByteReader::flag() { return below(2, "a flag") == 1; }

uint64_t ByteReader::fixed(int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(byte()) << (kBitsOfByte * i);
  return value;
}

double ByteReader::real() { return std::bit_cast<double>(fixed(sizeof(double))); }

std::size_t ByteReader::count(std::size_t least_bytes) {
  const std::size_t start = place_;
  const int64_t items = number();
  if (items < 0 || static_cast<uint64_t>(items) > left() / least_bytes)
    refuse(start, join("a number of items that the ", left(), " bytes behind it can hold"), std::to_string(items));
  return static_cast<std::size_t>(items);
}

std::string ByteReader::text() {
  const std::size_t size = count(1);
  place_ += size;
  return std::string(bytes_.substr(place_ - size, size));
}

std::vector<int> ByteReader::integers() {
  std::vector<int> values(count(1));
  for (int& value : values) value = integer();
  return values;
}

std::vector<bool> ByteReader::flags() {
  const std::size_t start = place_;
  const int64_t size = number();
  if (size < 0 || bytes_of_flags(static_cast<std::size_t>(size)) > left())
    refuse(start, join("a number of flags that the ", left(), " bytes behind it can hold"), std::to_string(size));
  std::vector<bool> values(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < values.size(); i += kBitsOfByte) {
    const uint8_t packed = byte();
    const std::size_t here = std::min<std::size_t>(kBitsOfByte, values.size() - i);
    for (std::size_t bit = 0; bit < here; ++bit) values[i + bit] = (packed >> bit & 1) != 0;
    if (packed >> here != 0) refuse(place_ - 1, "zeros behind the last flag", "ones");
  }
  return values;
}

void ByteReader::finish() const {
  if (left() > 0) refuse(place_, "the end", join(left(), " bytes more"));
}

}  // namespace sluice::parallel
