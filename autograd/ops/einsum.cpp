#include "autograd/ops/einsum.h"

#include <algorithm>
#include <map>
#include <utility>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduction.h"
#include "autograd/ops/reshape.h"
#include "autograd/ops/views.h"

namespace sluice {

namespace {

/// Names of axes: letters, and for those of "..." numbers below 0, of which -1 is the last axis.
using Labels = std::vector<int>;

struct Operand {
  Var x;
  Labels labels;
};

bool contains(const Labels& labels, int label) { return std::ranges::find(labels, label) != labels.end(); }

/// Those that are in both, or in the first alone.
Labels common(const Labels& a, const Labels& b) {
  Labels result;
  std::ranges::copy_if(a, std::back_inserter(result), [&](int label) { return contains(b, label); });
  return result;
}
Labels without(const Labels& a, const Labels& b) {
  Labels result;
  std::ranges::copy_if(a, std::back_inserter(result), [&](int label) { return !contains(b, label); });
  return result;
}
Labels followed_by(Labels a, const Labels& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string name_of(int label) { return label < 0 ? "..." : std::string(1, static_cast<char>(label)); }

/// The equation, and what it says of its operands.
class Equation {
 public:
  Equation(const std::string& text, const std::vector<Var>& operands);

  std::vector<Operand> operands;
  Labels result;

 private:
  template <class... Parts>
  void require_so(bool ok, const Parts&... parts) const {
    require(ok, "einsum \"", text_, "\": ", parts...);
  }
  Labels labels_of(const std::string& letters, int further_axes) const;
  void add_operand(const std::string& letters, const Var& x);
  void check_extents() const;
  Labels implicit_result() const;

  std::string text_;
  int most_further_axes_ = 0;
};

std::string without_spaces(std::string text) {
  std::erase(text, ' ');
  return text;
}

constexpr const char* kDots = "...";

/// Of what stands for one operand or the result; "..." becomes so many axes.
Labels Equation::labels_of(const std::string& letters, int further_axes) const {
  Labels labels;
  const size_t dots = letters.find(kDots);
  for (size_t at = 0; at < letters.size(); ++at) {
    if (at == dots) {
      for (int axis = further_axes; axis > 0; --axis) labels.push_back(-axis);
      at += 2;
      continue;
    }
    const char letter = letters[at];
    const bool is_letter = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
    require_so(is_letter, "needs letters, commas, one -> and at most one ... for each operand, got '", letter, "'");
    require_so(!contains(labels, letter), "needs each letter once in ", letters, ", got '", letter,
               "' again; multiply by an eye() and sum for a diagonal");
    labels.push_back(letter);
  }
  return labels;
}

void Equation::add_operand(const std::string& letters, const Var& x) {
  const Labels named = labels_of(letters, 0);
  const bool has_dots = letters.find(kDots) != std::string::npos;
  const int further_axes = x.rank() - static_cast<int>(named.size());
  require_so(has_dots ? further_axes >= 0 : further_axes == 0, "needs ", named.size(), has_dots ? " axes or more for '" : " axes for '",
             letters, "', got ", x.shape(), has_dots ? "" : "; ... stands for further axes");
  most_further_axes_ = std::max(most_further_axes_, further_axes);
  operands.push_back({x, labels_of(letters, further_axes)});
}

/// Further axes may broadcast.
void Equation::check_extents() const {
  std::map<int, int64_t> extents;
  for (const auto& [x, labels] : operands)
    for (size_t axis = 0; axis < labels.size(); ++axis) {
      const int64_t extent = x.dim(static_cast<int>(axis));
      int64_t& known = extents.try_emplace(labels[axis], extent).first->second;
      const bool broadcasts = labels[axis] < 0 && (known == 1 || extent == 1);
      require_so(known == extent || broadcasts, "needs equal axes for '", name_of(labels[axis]), "', got ", known, " and ", extent);
      if (known == 1) known = extent;
    }
}

Labels Equation::implicit_result() const {
  std::map<int, int> uses;
  for (const auto& [x, labels] : operands)
    for (const int label : labels) ++uses[label];
  Labels labels;
  for (const auto& [label, count] : uses)
    if (label < 0 || count == 1) labels.push_back(label);
  return labels;
}

Equation::Equation(const std::string& text, const std::vector<Var>& given) : text_(text) {
  const std::string equation = without_spaces(text);
  const size_t arrow = equation.find("->");
  std::vector<std::string> letters(1);
  for (const char c : equation.substr(0, arrow))
    if (c == ',')
      letters.emplace_back();
    else
      letters.back() += c;
  require_so(letters.size() == given.size(), "needs ", letters.size(), " operands, got ", given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    require_so(given[i].value().defined(), "needs operand ", i, ", got an undefined one");
    add_operand(letters[i], given[i]);
  }
  check_extents();
  result = arrow == std::string::npos ? implicit_result() : labels_of(equation.substr(arrow + 2), most_further_axes_);
  for (const int label : result)
    require_so(std::ranges::any_of(operands, [&](const Operand& operand) { return contains(operand.labels, label); }),
               "needs the letters of the result in an operand, got '", name_of(label), "'");
}

/// Summed over all axes but those.
Operand summed(const Operand& of, const Labels& kept) {
  std::vector<int> axes;
  for (size_t axis = 0; axis < of.labels.size(); ++axis)
    if (!contains(kept, of.labels[axis])) axes.push_back(static_cast<int>(axis));
  return axes.empty() ? of : Operand{sum(of.x, axes), common(of.labels, kept)};
}

/// Its axes in another order.
Var permuted(const Operand& of, const Labels& order) {
  if (of.labels == order) return of.x;
  std::vector<int> axes;
  for (const int label : order) axes.push_back(static_cast<int>(std::ranges::find(of.labels, label) - of.labels.begin()));
  return permute(of.x, axes);
}

int64_t extent_of(const Operand& of, int label) {
  return of.x.dim(static_cast<int>(std::ranges::find(of.labels, label) - of.labels.begin()));
}

/// With an axis of extent 1 for each label that it lacks.
Var aligned(const Operand& of, const Labels& order) {
  Var x = permuted(of, common(order, of.labels));
  for (size_t axis = 0; axis < order.size(); ++axis)
    if (!contains(of.labels, order[axis])) x = unsqueeze(x, static_cast<int>(axis));
  return x;
}

Operand product_without_sum(const Operand& a, const Operand& b) {
  const Labels all = followed_by(a.labels, without(b.labels, a.labels));
  return {mul(aligned(a, all), aligned(b, all)), all};
}

struct Matrices {
  Var x;
  bool is_transposed = false;
};

/// Matrices [batch..., rows, columns], or transposed where the axes lie so already.
Matrices matrices_of(const Operand& of, const Labels& batch, const Labels& rows, const Labels& columns) {
  const bool is_transposed = of.labels == followed_by(followed_by(batch, columns), rows) && !columns.empty();
  const Var x = permuted(of, is_transposed ? of.labels : followed_by(followed_by(batch, rows), columns));
  if (rows.size() == 1 && columns.size() == 1) return {x, is_transposed};
  Shape shape;
  for (const int label : batch) shape = shape.appended(extent_of(of, label));
  for (const Labels* group : {is_transposed ? &columns : &rows, is_transposed ? &rows : &columns}) {
    int64_t extent = 1;
    for (const int label : *group) extent *= extent_of(of, label);
    shape = shape.appended(extent);
  }
  return {reshape(x, shape), is_transposed};
}

/// So that axes that are summed in a product are equal: of "..." one may have extent 1.
Operand expanded(const Operand& of, const Operand& as, const Labels& labels) {
  Shape shape = of.x.shape();
  for (size_t axis = 0; axis < of.labels.size(); ++axis)
    if (contains(labels, of.labels[axis]) && shape[static_cast<int>(axis)] == 1)
      shape = shape.with(static_cast<int>(axis), extent_of(as, of.labels[axis]));
  return shape == of.x.shape() ? of : Operand{expand(of.x, shape), of.labels};
}

/// The product of two, summed over what is not among `kept`.
Operand product(const Operand& first, const Operand& second, const Labels& kept) {
  const Operand a = summed(first, followed_by(second.labels, kept)), b = summed(second, followed_by(first.labels, kept));
  const Labels both = common(a.labels, b.labels), batch = common(both, kept), inner = without(both, kept);
  if (inner.empty()) return product_without_sum(a, b);
  const Labels left = without(a.labels, b.labels), right = without(b.labels, a.labels);
  const auto [rows, rows_transposed] = matrices_of(expanded(a, b, inner), batch, left, inner);
  const auto [columns, columns_transposed] = matrices_of(expanded(b, a, inner), batch, inner, right);
  const Var c = matmul(rows, columns, rows_transposed, columns_transposed);
  const Labels labels = followed_by(followed_by(batch, left), right);
  if (left.size() == 1 && right.size() == 1) return {c, labels};
  Shape shape = c.shape().without(-1).without(-1);
  for (const int label : left) shape = shape.appended(extent_of(a, label));
  for (const int label : right) shape = shape.appended(extent_of(b, label));
  return {reshape(c, shape), labels};
}

}  // namespace

Var einsum(const std::string& equation, const std::vector<Var>& operands) {
  const Equation parsed(equation, operands);
  Operand all = parsed.operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    Labels kept = parsed.result;
    for (size_t later = i + 1; later < operands.size(); ++later) kept = followed_by(std::move(kept), parsed.operands[later].labels);
    all = product(all, parsed.operands[i], kept);
  }
  return permuted(summed(all, parsed.result), parsed.result);
}

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands) {
  return einsum(equation, std::vector<Var>(operands.begin(), operands.end())).value();
}

}  // namespace sluice
