#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "autograd/var.h"

namespace sluice {

/// Products of elements, summed over the axes that the result lacks, in Einstein's notation: a letter names an axis.
///   einsum("bthd,bshd->bhts", {queries, keys});   // scores of attention
///   einsum("ij->ji", {x});   einsum("ij,ij->", {x, y});   einsum("...i,ij", {x, weight});
/// The operands' axes stand before "->", with commas between operands, and those of the result after it; without "->" the result has the
/// letters that occur once, in the order of the alphabet. "..." stands for any further axes, which broadcast after NumPy's rule and come first
/// in a result without "->". Spaces count nothing.
/// Shape   axes of one letter are equal. The result of one operand alone may be a view of it.
/// Dtypes  one floating dtype; products of two operands are matmul's, which sums bf16 in f32, where they have a letter to sum over.
/// Errors  UsageError with the equation: for operands that do not match it, a letter twice in one operand (a diagonal) or in the result, a
///         letter of the result that no operand has, and axes of one letter that differ.
/// Cost    one product after the other from the left, so put first what shrinks; an axis that is summed in one operand alone is summed before.
Var einsum(const std::string& equation, const std::vector<Var>& operands);
Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands);
/// Of a list in braces it is clear by these which ones are meant, those of Tensors or of Vars.
inline Var einsum(const std::string& equation, std::initializer_list<Var> operands) { return einsum(equation, std::vector<Var>(operands)); }
inline Tensor einsum(const std::string& equation, std::initializer_list<Tensor> operands) {
  return einsum(equation, std::vector<Tensor>(operands));
}

}  // namespace sluice
