// What a Tensor prints: its values, as NumPy lays them out, then what they are.
#include <ostream>
#include <string_view>

#include "core/aligned_numbers.h"
#include "core/ops/concat.h"
#include "core/tensor.h"

namespace sluice {

namespace {

constexpr int64_t kMostElements = 1000;  // of a tensor that is printed whole
constexpr int64_t kEdge = 3;             // elements that are shown at both ends of an axis else
constexpr size_t kLineWidth = 75;

bool is_cut(const Shape& shape, int axis) { return shape.elements() > kMostElements && shape[axis] > 2 * kEdge; }

/// The elements that are shown, so that no others are brought from a GPU.
Tensor shown(const Tensor& x) {
  Tensor result = x;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (is_cut(x.shape(), axis)) result = concat({result.slice(axis, 0, kEdge), result.slice(axis, -kEdge)}, axis);
  return result.on_host();
}

/// Puts numbers into brackets and lines.
class Layout {
 public:
  Layout(const Tensor& x, const Shape& whole) : numbers_(aligned_numbers(x)), shape_(x.shape()), whole_(whole) {}

  std::string text() { return shape_.rank() == 0 ? numbers_[0] : block(0, " ", kLineWidth); }

 private:
  /// The next elements along an axis and those inside it, in brackets. Their lines begin with `indent`.
  std::string block(int axis, const std::string& indent, size_t width) {
    const std::string inner = axis + 1 == shape_.rank() ? row(axis, indent, width - 1) : blocks(axis, indent, width);
    return join("[", std::string_view(inner).substr(indent.size()), "]");
  }

  std::string blocks(int axis, const std::string& indent, size_t width) {
    const std::string gap(static_cast<size_t>(shape_.rank() - 1 - axis), '\n');
    std::string text;
    for (int64_t i = 0; i < shape_[axis]; ++i) {
      if (i > 0) text += gap;
      if (i == kEdge && is_cut(whole_, axis)) text += indent + "..." + gap;
      text += indent + block(axis + 1, indent + " ", width - 1);
    }
    return text;
  }

  std::string row(int axis, const std::string& indent, size_t width) {
    std::string text, line = indent;
    const auto add = [&](const std::string& word) {
      if (line.size() + word.size() > width && line.size() > indent.size()) {
        text += line.erase(line.find_last_not_of(' ') + 1) + "\n";
        line = indent;
      }
      line += word;
    };
    for (int64_t i = 0; i < shape_[axis]; ++i) {
      if (i > 0) line += " ";
      if (i == kEdge && is_cut(whole_, axis)) add("..."), line += " ";
      add(numbers_[next_++]);
    }
    return text + line;
  }

  std::vector<std::string> numbers_;
  Shape shape_;
  const Shape& whole_;
  size_t next_ = 0;
};

std::string values_text(const Tensor& x) {
  if (x.elements() == 0) return "[]";
  return Layout(shown(x), x.shape()).text();
}

}  // namespace

void describe(std::ostream& out, const Tensor& x) {
  if (!x.defined()) {
    out << "an undefined tensor";
    return;
  }
  out << name_of(x.dtype()) << ' ' << x.shape() << " on " << x.device().name();
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) {
  const bool has_values = x.defined() && x.device().kind() != DeviceKind::meta;
  if (has_values) out << values_text(x) << '\n';
  describe(out, x);
  if (x.defined() && !has_values) out << ", which holds no values";
  return out;
}

}  // namespace sluice
