#include "core/file/npy_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

static_assert(std::endian::native == std::endian::little, ".npy files are read and written as little-endian ones");

namespace sluice {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kMaxHeaderBytes = int64_t{1} << 20;

struct Description {
  std::string_view name;
  DType dtype;
};
/// The first one of a dtype is what is written for it.
constexpr std::array<Description, 6> kDescriptions{
    {{"<f4", DType::f32}, {"<f8", DType::f64}, {"<i4", DType::i32}, {"<i8", DType::i64}, {"|u1", DType::u8}, {"|b1", DType::u8}}};

/// A place in the header's text, which is one literal of Python: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class Literal {
 public:
  Literal(std::string_view text, int64_t begin, const std::string& file) : text_(text), begin_(begin), file_(file) {}

  [[noreturn]] void refuse(const std::string& reason) const {
    throw DataError(join(file_, ", byte ", begin_ + static_cast<int64_t>(at_), ": ", reason));
  }
  void refuse_unless(bool ok, const char* reason) const {
    if (!ok) refuse(reason);
  }

  bool next_is(char wanted) {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() && text_[at_] == wanted;
  }
  bool take(char wanted) {
    if (!next_is(wanted)) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!take(wanted)) refuse(join("needs '", wanted, "' here; the header is damaged, save the array again"));
  }
  std::string_view quoted() {
    const char quote = next_is('"') ? '"' : '\'';
    expect(quote);
    const size_t end = text_.find(quote, at_);
    refuse_unless(end != text_.npos, "the text that begins here has no end; the header is damaged, save the array again");
    const std::string_view result = text_.substr(at_, end - at_);
    at_ = end + 1;
    return result;
  }
  bool truth() {
    const bool result = next_is('T');
    const std::string_view word = result ? "True" : "False";
    refuse_unless(text_.substr(at_).starts_with(word), "needs True or False here; the header is damaged, save the array again");
    at_ += word.size();
    return result;
  }
  int64_t extent() {
    next_is('0');
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    refuse_unless(error == std::errc{} && value >= 0,
                  "needs an extent from 0 to 2^63 - 1 here; the header is damaged, save the array again");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  void expect_end() {
    next_is(' ');
    refuse_unless(at_ == text_.size(), "needs the header's end here; the header is damaged, save the array again");
  }

 private:
  std::string_view text_;
  int64_t begin_;
  const std::string& file_;
  size_t at_ = 0;
};

/// What makes numbers that can be read of those of another dtype. Whole ones lose nothing.
const char* cure_of(std::string_view name) {
  switch (name.size() > 1 ? name[1] : ' ') {
    case 'f':
      return "save a.astype('float32')";
    case 'i':
    case 'u':
      return "save a.astype('int64')";
    case 'c':
      return "save a.real and a.imag, each as an array of its own";
    default:
      return "save numbers";
  }
}

DType read_dtype(Literal& literal) {
  if (literal.next_is('[')) literal.refuse("needs plain numbers, got a structured dtype; save each of its fields as an array of its own");
  const std::string_view name = literal.quoted();
  for (const auto& known : kDescriptions)
    if (known.name == name) return known.dtype;
  if (name.find('O') != name.npos)
    literal.refuse("needs numbers, got Python objects, which only Python can read; save a.astype('float32')");
  if (name.starts_with('>'))
    literal.refuse(join("needs little-endian numbers, got '", name, "'; save a.astype(a.dtype.newbyteorder('<'))"));
  literal.refuse(join("needs a dtype of <f4, <f8, <i4, <i8, |u1, |b1, got '", name, "'; ", cure_of(name)));
}

std::vector<int64_t> read_extents(Literal& literal) {
  std::vector<int64_t> extents;
  literal.expect('(');
  while (!literal.take(')')) {
    if (extents.size() == kMaxRank) literal.refuse("needs at most 8 axes, got more; save a.reshape(...) with fewer");
    extents.push_back(literal.extent());
    if (!literal.next_is(')')) literal.expect(',');
  }
  return extents;
}

struct Fields {
  std::optional<DType> dtype;
  std::optional<bool> is_fortran_order;
  std::optional<std::vector<int64_t>> extents;
};

Fields read_fields(Literal& literal) {
  Fields fields;
  literal.expect('{');
  while (!literal.take('}')) {
    const std::string_view key = literal.quoted();
    literal.expect(':');
    if (key == "descr" && !fields.dtype)
      fields.dtype = read_dtype(literal);
    else if (key == "fortran_order" && !fields.is_fortran_order)
      fields.is_fortran_order = literal.truth();
    else if (key == "shape" && !fields.extents)
      fields.extents = read_extents(literal);
    else
      literal.refuse(join("needs the keys descr, fortran_order and shape once each, got '", key, "'; save the array again"));
    if (!literal.next_is('}')) literal.expect(',');
  }
  literal.expect_end();
  literal.refuse_unless(fields.dtype && fields.is_fortran_order && fields.extents,
                        "needs the keys descr, fortran_order and shape, got fewer; save the array again");
  return fields;
}

/// Extents of zero do not excuse the others.
int64_t bytes_of(const Fields& fields, const Literal& literal) {
  int64_t bytes = static_cast<int64_t>(size_of(*fields.dtype));
  for (const int64_t extent : *fields.extents)
    literal.refuse_unless(!__builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes),
                          "the shape's bytes do not fit in 63 bits; the header is damaged, save the array again");
  return std::ranges::find(*fields.extents, 0) != fields.extents->end() ? 0 : bytes;
}

}  // namespace

int64_t npy_data_begin(std::string_view start, int64_t file_bytes, const std::string& file) {
  require<DataError>(start.starts_with(kMagic), file,
                     ", byte 0: needs a .npy file, which begins with \\x93NUMPY; is it another kind of file?");
  require<DataError>(static_cast<int64_t>(start.size()) >= kNpyStartBytes, file, ", byte ", start.size(),
                     ": the file ends within its header; it was cut off, get it again");
  const int version = start[6];
  require<DataError>(version >= 1 && version <= 3, file, ", byte 6: needs version 1, 2 or 3 of the format, got ", version,
                     "; save the array with np.save");
  uint32_t length = 0;
  std::memcpy(&length, start.data() + 8, version == 1 ? 2 : 4);
  const int64_t begin = (version == 1 ? 10 : 12) + static_cast<int64_t>(length);
  require<DataError>(begin <= std::min(file_bytes, kMaxHeaderBytes) && begin >= kNpyStartBytes, file, ", byte 8: needs a header of up to ",
                     kMaxHeaderBytes, " bytes within the file of ", file_bytes, " bytes, got ", length, "; it was cut off, get it again");
  return begin;
}

NpyHeader parse_npy_header(std::string_view start, int64_t file_bytes, const std::string& file) {
  const int64_t data_begin = npy_data_begin(start, file_bytes, file), text_begin = start[6] == 1 ? 10 : 12;
  require<DataError>(static_cast<int64_t>(start.size()) >= data_begin, file, ", byte ", start.size(),
                     ": the file ends within its header; it was cut off, get it again");
  Literal literal(start.substr(static_cast<size_t>(text_begin), static_cast<size_t>(data_begin - text_begin)), text_begin, file);
  const Fields fields = read_fields(literal);
  const int64_t needed = bytes_of(fields, literal), held = file_bytes - data_begin;
  require<DataError>(held >= needed, file, ", byte ", file_bytes, ": needs ", needed,
                     " bytes for its shape and dtype, the file ends after ", held, "; it was cut off, get it again");
  require<DataError>(held == needed, file, ", byte ", data_begin + needed, ": ", held - needed,
                     " bytes follow the array; save each array in a file of its own, or all of them with np.savez");
  return {*fields.dtype, Shape(std::span<const int64_t>(*fields.extents)), *fields.is_fortran_order, data_begin};
}

std::string npy_header(DType dtype, const Shape& shape) {
  const auto known = std::ranges::find(kDescriptions, dtype, &Description::dtype);
  require(known != kDescriptions.end(), "npy: needs a dtype that NumPy has, got ", name_of(dtype), "; cast() to f32");
  std::string extents;
  for (const int64_t extent : shape.extents()) extents += join(extents.empty() ? "" : " ", extent, ",");
  if (shape.rank() > 1) extents.pop_back();
  std::string text = join("{'descr': '", known->name, "', 'fortran_order': False, 'shape': (", extents, "), }");
  constexpr size_t kAlignment = 64, kBefore = 10;
  text.append(kAlignment - 1 - (kBefore + text.size()) % kAlignment, ' ');
  text += '\n';
  const auto length = static_cast<uint16_t>(text.size());
  std::string header(kMagic);
  header.append({1, 0, static_cast<char>(length & 0xff), static_cast<char>(length >> 8)});
  return header + text;
}

}  // namespace sluice
