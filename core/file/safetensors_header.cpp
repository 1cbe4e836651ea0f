#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/file/safetensors.h"

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace sluice {

namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxTensors = 1'000'000;
/// Of an offset: where the data are in the file is a number of 63 bits, too.
constexpr uint64_t kMaxNumber = std::numeric_limits<int64_t>::max() - kMaxHeaderBytes - 8;

const std::map<std::string, DType>& dtypes() {
  static const std::map<std::string, DType> table = {{"F32", DType::f32}, {"BF16", DType::bf16}, {"F64", DType::f64},
                                                     {"I32", DType::i32}, {"I64", DType::i64},   {"U8", DType::u8}};
  return table;
}

/// Walks over the header's bytes and tells the parser's events where they are.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** reached;
  const char& operator*() const { return *at; }
  CountingIterator& operator++() {
    *reached = ++at;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at == other.at; }
  bool operator!=(const CountingIterator& other) const { return at != other.at; }
};

/// Takes the parser's events apart: depth 1 names tensors, depth 2 their fields, and arrays hold numbers. Events come in the order of
/// the text, which is how two equal keys are seen (a DOM would keep one of them silently).
class HeaderEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderEvents(std::string_view text, const std::string& file) : reached(text.data()), text_(text), file_(file) {}

  SafetensorsHeader header;
  const char* reached;

  bool key(string_t& word) override {
    if (depth_ == 1) {
      refuse_unless(names_.insert(word).second, "needs unique names, got this one twice");
      refuse_unless(names_.size() <= kMaxTensors, "needs at most 1000000 tensors");
      name_ = word;
      return true;
    }
    refuse_unless(fields_.insert(word).second, "needs unique keys, got '" + word + "' twice");
    refuse_unless(in_metadata() || word == "dtype" || word == "shape" || word == "data_offsets",
                  "needs the keys dtype, shape and data_offsets, got '" + word + "'");
    field_ = word;
    return true;
  }
  bool start_object(std::size_t) override {
    refuse_unless(!in_array_ && ++depth_ <= 2, "needs no more than two nested objects");
    fields_.clear();
    dtype_.reset(), shape_.reset(), offsets_.reset();
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1 && !in_metadata()) finish_tensor();
    return true;
  }
  bool start_array(std::size_t) override {
    refuse_unless(depth_ == 2 && !in_array_ && !in_metadata() && field_ != "dtype", "an array is not expected here");
    in_array_ = true;
    numbers_.clear();
    return true;
  }
  bool end_array() override {
    in_array_ = false;
    (field_ == "shape" ? shape_ : offsets_) = numbers_;
    return true;
  }
  bool number_unsigned(number_unsigned_t number) override {
    refuse_unless(in_array_ && number <= kMaxNumber, "the number does not fit here");
    refuse_unless(numbers_.size() < static_cast<size_t>(kMaxRank), "needs at most 8 extents and 2 offsets");
    numbers_.push_back(static_cast<int64_t>(number));
    return true;
  }
  bool string(string_t& word) override {
    if (in_metadata() && depth_ == 2) {
      header.metadata[field_] = word;
      return true;
    }
    refuse_unless(depth_ == 2 && !in_array_ && field_ == "dtype", "a string is not expected here");
    const auto known = dtypes().find(word);
    refuse_unless(known != dtypes().end(), "needs a dtype of F32, BF16, F64, I32, I64, U8, got '" + word +
                                               "'; save it as one of those, such as x.float() or, of integers, x.long() of PyTorch");
    dtype_ = known->second;
    return true;
  }
  bool null() override { refuse("null is not expected here"); }
  bool boolean(bool) override { refuse("a boolean is not expected here"); }
  bool number_integer(number_integer_t) override { refuse("needs numbers >= 0, got a negative one"); }
  bool number_float(number_float_t, const string_t& word) override { refuse("needs integers below 2^63, got " + word); }
  bool binary(binary_t&) override { refuse("binary data are not expected here"); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    refuse(join("the header is no valid JSON: ", error.what()));
  }

 private:
  bool in_metadata() const { return name_ == "__metadata__"; }

  [[noreturn]] void refuse(const std::string& reason) const {
    const std::string tensor = name_.empty() ? "" : ", tensor '" + name_ + "'";
    throw DataError(join(file_, tensor, ", byte ", 8 + (reached - text_.data()), ": ", reason));
  }
  void refuse_unless(bool ok, const std::string& reason) const {
    if (!ok) refuse(reason);
  }

  void finish_tensor() {
    refuse_unless(dtype_ && shape_ && offsets_, "needs dtype, shape and data_offsets, got less");
    refuse_unless(offsets_->size() == 2 && (*offsets_)[0] <= (*offsets_)[1], "needs data_offsets [begin, end] with begin <= end");
    // Extents of zero do not excuse the others.
    int64_t bytes = static_cast<int64_t>(size_of(*dtype_));
    for (const int64_t extent : *shape_)
      refuse_unless(!__builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes), "the shape's bytes do not fit in 63 bits");
    if (std::find(shape_->begin(), shape_->end(), 0) != shape_->end()) bytes = 0;
    const int64_t claimed = (*offsets_)[1] - (*offsets_)[0];
    refuse_unless(claimed == bytes, join("needs ", bytes, " bytes for its shape and dtype, data_offsets give ", claimed));
    header.tensors[name_] = {*dtype_, Shape(std::span<const int64_t>(*shape_)), (*offsets_)[0], (*offsets_)[1]};
  }

  std::string_view text_;
  const std::string& file_;
  int depth_ = 0;
  bool in_array_ = false;
  std::string name_, field_;
  std::set<std::string> names_, fields_;
  std::vector<int64_t> numbers_;
  std::optional<DType> dtype_;
  std::optional<std::vector<int64_t>> shape_, offsets_;
};

/// The tensors, in the order of their data, must cover it exactly: what no tensor owns could hide anything.
void check_cover(const SafetensorsHeader& header, int64_t file_bytes, const std::string& file) {
  std::vector<std::pair<std::pair<int64_t, int64_t>, const std::string*>> ranges;
  for (const auto& [name, entry] : header.tensors) ranges.push_back({{entry.begin, entry.end}, &name});
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  int64_t covered = 0;
  for (const auto& [range, name] : ranges) {
    require<DataError>(range.first == covered, file, ", tensor '", *name, "', byte ", header.data_begin + range.first,
                       ": its data must begin at byte ", header.data_begin + covered, ", where the tensor before it ends (",
                       range.first < covered ? "overlap" : "hole", ")");
    covered = range.second;
  }
  const int64_t held = file_bytes - header.data_begin;
  const std::string last = ranges.empty() ? "" : ", tensor '" + *ranges.back().second + "'";
  require<DataError>(held >= covered, file, last, ", byte ", file_bytes, ": the file ends here, but its tensors need ",
                     header.data_begin + covered, " bytes: it was cut off; use an older checkpoint");
  require<DataError>(held == covered, file, last, ", byte ", header.data_begin + covered, ": ", held - covered,
                     " bytes follow the last tensor");
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view start, int64_t file_bytes, const std::string& file) {
  require<DataError>(file_bytes >= 8 && start.size() >= 8, file, ", byte ", file_bytes, ": needs at least 8 bytes, the file ends here");
  uint64_t length = 0;
  std::memcpy(&length, start.data(), 8);
  require<DataError>(
      length > 0 && length <= kMaxHeaderBytes && length <= static_cast<uint64_t>(file_bytes) - 8 && length <= start.size() - 8, file,
      ", byte 0: needs a header of 1 to ", kMaxHeaderBytes, " bytes within the file of ", file_bytes, " bytes, got ", length);
  const std::string_view text = start.substr(8, length);
  require<DataError>(text[0] == '{', file, ", byte 8: needs a header that begins with '{'");
  // The JSON library takes a zero byte for the end of its input, whatever follows.
  const size_t zero = text.find('\0');
  require<DataError>(zero == text.npos, file, ", byte ", 8 + zero, ": a zero byte in the header");

  HeaderEvents events(text, file);
  const char* end = text.data() + text.size();
  nlohmann::json::sax_parse(CountingIterator{text.data(), &events.reached}, CountingIterator{end, &events.reached}, &events);
  events.header.data_begin = static_cast<int64_t>(8 + length);
  check_cover(events.header, file_bytes, file);
  return events.header;
}

}  // namespace sluice
