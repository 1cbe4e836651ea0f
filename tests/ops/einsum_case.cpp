#include <map>

#include "autograd/ops/einsum.h"
#include "tests/ops/places.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

/// The letters of the operands and, last, of the result; an explicit equation without "...".
std::vector<std::string> parts_of(const std::string& equation) {
  std::vector<std::string> parts(1);
  for (const char c : equation) {
    if (c == ',' || c == '>') parts.emplace_back();
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) parts.back() += c;
  }
  return parts;
}

/// One loop over all letters, those of the result first. An axis of extent 1 serves every index.
auto reference(const std::string& equation) {
  return [parts = parts_of(equation)](const std::vector<Tensor>& x) {
    std::string letters = parts.back();
    std::map<char, int64_t> extents;
    for (size_t i = 0; i < x.size(); ++i)
      for (size_t axis = 0; axis < parts[i].size(); ++axis) {
        const char letter = parts[i][axis];
        if (letters.find(letter) == std::string::npos) letters += letter;
        extents[letter] = std::max(extents[letter], x[i].dim(static_cast<int>(axis)));
      }
    Shape all, result;
    for (const char letter : letters) all = all.appended(extents[letter]);
    for (const char letter : parts.back()) result = result.appended(extents[letter]);
    std::vector<Values> elements;
    for (const Tensor& operand : x) elements.push_back(operand.to_vector());
    Values y(result.elements());
    each_place(all, [&](const Place& place) {
      double product = 1;
      for (size_t i = 0; i < x.size(); ++i) {
        Place at;
        for (size_t axis = 0; axis < parts[i].size(); ++axis)
          at.push_back(x[i].dim(static_cast<int>(axis)) == 1 ? 0 : place[letters.find(parts[i][axis])]);
        product *= elements[i][offset_of(x[i].shape(), at)];
      }
      y[offset_of(result, Place(place.begin(), place.begin() + result.rank()))] += product;
    });
    return y;
  };
}

OpCase of(const std::string& name, const std::string& equation, std::vector<InputSpec> inputs, const std::string& explicit_equation = {}) {
  return {.name = name,
          .inputs = std::move(inputs),
          .run = [equation](const std::vector<Var>& x) { return einsum(equation, x); },
          .expect = reference(explicit_equation.empty() ? equation : explicit_equation)};
}

OpCase refused(const std::string& name, const std::string& equation, std::vector<InputSpec> inputs, const std::string& message) {
  OpCase result{.name = name,
                .inputs = std::move(inputs),
                .run = [equation](const std::vector<Var>& x) { return einsum(equation, x); },
                .expect = {},
                .throws = message};
  return result;
}

}  // namespace

OP_CASES(einsum) {
  add(of("product", "ij,jk->ik", {randn({3, 4}), randn({4, 5})}));
  add(of("implicit", "ij,jk", {randn({3, 4}), randn({4, 5})}, "ij,jk->ik"));
  add(of("implicit_of_the_alphabet", "ba", {randn({3, 4})}, "ba->ab"));
  add(of("batches", "bij,bjk->bik", {randn({2, 3, 4}), randn({2, 4, 5})}));
  add(of("scores", "bthd,bshd->bhts", {randn({2, 3, 2, 4}), randn({2, 5, 2, 4})}));
  add(of("mixed", "bhts,bshd->bthd", {randn({2, 2, 3, 5}), randn({2, 5, 2, 4})}));
  add(of("transposed_operands", "ji,kj->ik", {randn({4, 3}), randn({5, 4})}));
  add(of("strided_operands", "ij,jk->ki", {transposed(randn({4, 3}), 0, 1), sliced(randn({4, 9}), 1, 2, 7)}));
  add(of("two_letters_summed", "aib,bja->ij", {randn({2, 3, 4}), randn({4, 5, 2})}));
  add(of("two_letters_left", "abi,ic->abc", {randn({2, 3, 4}), randn({4, 5})}));
  add(of("two_letters_right", "ia,bci->cab", {randn({4, 2}), randn({3, 5, 4})}));
  add(of("dot", "i,i->", {randn({7}), randn({7})}));
  add(of("dot_of_matrices", "ij,ij->", {randn({3, 4}), randn({3, 4})}));
  add(of("dot_of_rows", "bi,bi->b", {randn({3, 4}), randn({3, 4})}));
  add(of("matrix_and_vector", "ij,j->i", {randn({3, 4}), randn({4})}));
  add(of("outer", "i,j->ij", {randn({3}), randn({4})}));
  add(of("outer_in_another_order", "bi,bj->bji", {randn({2, 3}), randn({2, 4})}));
  add(of("elements", "ij,ji->ij", {randn({3, 4}), randn({4, 3})}));
  add(of("number", ",ij->ji", {randn(Shape{}), randn({3, 4})}));
  add(of("bilinear", "bi,oij,bj->bo", {randn({3, 4}), randn({2, 4, 5}), randn({3, 5})}));
  add(of("chain", "ij,jk,kl,lm->im", {randn({2, 3}), randn({3, 4}), randn({4, 3}), randn({3, 2})}));
  add(of("three_of_one_letter", "i,i,i->", {randn({5}), randn({5}), randn({5})}));
  add(of("sum", "ijk->j", {randn({2, 3, 4})}));
  add(of("sum_of_all", "ij->", {randn({3, 4})}));
  add(of("permutation", "ijk->kij", {randn({2, 3, 4})}));
  add(of("summed_before", "ijk,jl->l", {randn({2, 3, 4}), randn({3, 5})}));
  add(of("spaces", " i j , j k -> i k ", {randn({3, 4}), randn({4, 5})}, "ij,jk->ik"));
  add(of("capitals", "Bi,iB->B", {randn({3, 4}), randn({4, 3})}));
  add(of("further_axes", "...ij,...jk->...ik", {randn({2, 3, 2, 4}), randn({2, 3, 4, 5})}, "abij,abjk->abik"));
  add(of("further_axes_of_one", "...i,ij->...j", {randn({2, 3, 4}), randn({4, 5})}, "abi,ij->abj"));
  add(of("further_axes_broadcast", "...ij,...jk->...ik", {randn({3, 1, 2, 4}), randn({2, 4, 5})}, "abij,bjk->abik"));
  add(of("further_axes_last", "i...,i...->...", {randn({4, 3}), randn({4, 3})}, "ia,ia->a"));
  add(of("further_axes_implicit", "i...j", {randn({2, 3, 4})}, "iaj->aij"));
  add(of("further_axes_summed", "...i,...i->i", {randn({3, 2, 4}), randn({2, 4})}, "abi,bi->i"));
  add(of("further_axes_of_extent_one_summed", "...i,...j->ij", {randn({1, 4}), randn({3, 2})}, "ai,aj->ij"));
  add(of("no_further_axes", "...i,...i->...", {randn({4}), randn({4})}, "i,i->"));
  add(of("empty", "ij,jk->ik", {randn({3, 0}), randn({0, 2})}));
  add(refused("few_operands", "ij,jk->ik", {randn({3, 4})}, "einsum \"ij,jk->ik\": needs 2 operands, got 1"));
  add(refused("other_axes", "ij->i", {randn({3, 4, 5})}, "needs 2 axes for 'ij', got [3, 4, 5]; ... stands for further axes"));
  add(refused("too_few_axes", "...ijk->i", {randn({3, 4})}, "needs 3 axes or more for '...ijk', got [3, 4]"));
  add(refused("unequal_axes", "ij,jk->ik", {randn({3, 4}), randn({5, 2})}, "needs equal axes for 'j', got 4 and 5"));
  add(refused("unequal_further_axes", "...i,...i->...", {randn({3, 4}), randn({2, 4})}, "needs equal axes for '...', got 3 and 2"));
  add(refused("axis_of_one", "ij,jk->ik", {randn({3, 1}), randn({5, 2})}, "needs equal axes for 'j', got 1 and 5"));
  add(refused("unknown_letter", "ij->k", {randn({3, 4})}, "needs the letters of the result in an operand, got 'k'"));
  add(refused("diagonal", "ii->i", {randn({3, 3})}, "got 'i' again; multiply by an eye() and sum for a diagonal"));
  add(refused("twice_in_the_result", "ij->ii", {randn({3, 4})}, "needs each letter once in ii, got 'i' again"));
  add(refused("character", "i1->i", {randn({3, 4})}, "got '1'"));
  add(refused("two_arrows", "i->j->i", {randn({3})}, "got '-'"));
  add(refused("more_dots", "......i->i", {randn({3, 4, 5})}, "at most one ... for each operand"));
  OpCase scores = of("scores_512", "bthd,bshd->bhts", {randn({4, 512, 12, 64}), randn({4, 512, 12, 64})});
  scores.bench = true;
  add(scores);
}
