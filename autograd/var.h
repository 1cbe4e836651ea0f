#pragma once
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <utility>
#include <vector>

#include "autograd/op_attributes.h"
#include "core/tensor.h"

namespace sluice {

struct Node;
using NodePtr = std::shared_ptr<Node>;

/// Which inputs of a node want a gradient: of any number.
class Needs {
 public:
  static Needs of(size_t input);
  void add(size_t input);
  bool operator[](size_t input) const {
    if (input < kFirst) return (first_ >> input & 1) != 0;
    return input - kFirst < others_.size() && others_[input - kFirst];
  }
  bool any() const { return first_ != 0 || !others_.empty(); }
  /// Some input is in both.
  bool meets(const Needs& other) const;

 private:
  static constexpr size_t kFirst = 64;
  uint64_t first_ = 0;        ///< inputs 0 .. 63, which is all of nearly every op, without memory of their own
  std::vector<bool> others_;  ///< from 64 on; ends with the last input that wants one
};

/// The gradients that a backward function returns: one Tensor an input, of its shape and on its device; those that `Needs` did not ask
/// for may be undefined, and left out at the end. Sums over many elements may come in the dtype of the arithmetic; Backward rounds them to
/// the input's gradient_dtype(). A gradient of an input whose Node::take_sum() was called has that added.
using Gradients = std::vector<Tensor>;

/// A backward function is a plain function: all that it uses lies in the node, where the executor can count and free it. It leaves dy and
/// what the node saved as they are: other gradients may be views of them.
using BackwardFunction = Gradients (*)(const Node& node, const Tensor& dy, Needs needs);

/// A recorded application of an op, or a leaf (backward == nullptr).
/// Threads  one graph belongs to one thread at a time.
struct Node {
  Node() = default;
  Node(const Node&) = default;
  Node& operator=(const Node&) = delete;
  /// Frees the nodes upstream one after another, so that a chain of any length needs no stack.
  ~Node();

  const char* op = "";          ///< a literal
  DType dtype = DType::f32;     ///< of the value
  Shape shape;                  ///< of the value
  DevicePtr device;             ///< of the value
  std::vector<NodePtr> inputs;  ///< where the inputs came from; null for constants. Keeps no values alive: only `saved` does
  std::vector<Tensor> saved;    ///< what backward reads
  std::vector<Needs> readers;   ///< of an op that defers, by saved tensor: the inputs whose gradients read it; see record()
  OpAttributes attributes;      ///< small constants of the op (axis, epsilon, ...)
  BackwardFunction backward = nullptr;
  bool only_moves = false;           ///< of an op that computes nothing: views, concat; see record_moved()
  bool reaches_data = false;         ///< an input leaf or a constant lies upstream (or this is one): not made of parameters alone
  uint64_t order = 0;                ///< creation order; backward runs from high to low
  Tensor accumulator;                ///< of a leaf: its gradient is added here in place, and no other leaf's; undefined for one of its own
  const char* freed_by = nullptr;    ///< the op where the backward began that took what is saved here; null before
  int uses = 0;                      ///< as an input of recorded ops
  mutable std::vector<Tensor> sums;  ///< while the backward function runs, by input: see take_sum()

  /// The tensor that the gradient of an input has to be added to, which the backward function of an op that defers may do itself and
  /// return; or undefined.
  Tensor accumulator_of(size_t input) const { return inputs[input] ? inputs[input]->accumulator : Tensor(); }
  /// What the gradient of an input has come to so far, like the input and row-major; undefined where nothing has, where gradient_dtype() is
  /// not the input's, and where it is a view that would have to be copied first. For a backward function that can add its part in the same
  /// pass over memory: it then returns the sum, rounded as if the part had been added to it afterwards. Called once an input.
  Tensor take_sum(size_t input) const {
    return input < sums.size() && sums[input].defined() && sums[input].is_contiguous() ? std::exchange(sums[input], Tensor()) : Tensor();
  }
  bool is_parameter() const { return !backward && !reaches_data; }
  bool defers() const { return !readers.empty(); }
  /// Of this value's gradient: the value's own, but of a parameter, and of what only moves elements of parameters, that of the arithmetic
  /// (f32 for bf16). So gradients of weights are sums that were never rounded, whatever the weights are stored in.
  DType gradient_dtype() const { return is_parameter() || (only_moves && !reaches_data) ? compute_dtype(dtype) : dtype; }
  template <class T>
  const T& attribute() const {
    return attributes.as<T>();
  }
};

/// A value with its place in the recorded graph. Ops on Vars compute at once and record themselves when a leaf lies upstream.
/// Copies share value and node. Implicit from Tensor: a constant.
class Var {
 public:
  Var() = default;
  Var(Tensor value) : value_(std::move(value)) {}  // NOLINT: a constant reads as its tensor
  Var(Tensor value, NodePtr node) : value_(std::move(value)), node_(std::move(node)) {}

  /// A leaf that wants an input gradient (I): an activation that came from elsewhere.
  static Var input(Tensor value);
  /// A leaf that wants a weight gradient (W), in the dtype of the arithmetic: see Node::gradient_dtype.
  static Var parameter(Tensor value);

  const Tensor& value() const { return value_; }
  const Shape& shape() const { return value_.shape(); }
  int rank() const { return value_.rank(); }
  int64_t dim(int axis) const { return value_.dim(axis); }
  int64_t elements() const { return value_.elements(); }
  DType dtype() const { return value_.dtype(); }
  double item() const { return value_.item(); }
  const NodePtr& node() const { return node_; }
  /// At one index of the first axis, without that axis: as Tensor's, with select()'s gradient.
  Var operator[](int64_t index) const;
  /// The value as a constant: no gradient goes through it.
  Var detach() const { return Var(value_); }

 private:
  Tensor value_;
  NodePtr node_;
};

/// While one lives, ops of its thread take what was made before it for constants: they neither record nor save anything for leaves that were
/// there. Leaves made meanwhile record as ever, so a library that computes gradients of its own is not disturbed.
///   const NoGrad no_grad;
/// Threads  its own. Scopes may lie in one another.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  uint64_t outer_;
};

/// Wraps an op's result: records a node unless no input wants a gradient, or the result is of integers, which have none: then nothing is
/// saved, and it is a constant.
///
/// `readers` decides what a split backward does with the gradients of weights. With them (products, lookups in tables) the op defers: I makes
/// the gradients of data alone and keeps dy and those saved tensors that the gradients of weights read; W makes them. Each gradient
/// is then made by a call of its own, so it must not read what it does not name. Without them (sums over what I reads anyway: gains,
/// biases, elementwise factors) I makes all gradients in one pass over memory, keeps the finished ones, and W only adds them to their sums.
Var record(const char* op, Tensor y, const std::vector<Var>& inputs, std::vector<Tensor> saved, OpAttributes attributes,
           BackwardFunction backward, std::vector<Needs> readers = {});

/// The same for an op that only moves elements, such as a view. Its backward function gets dy in Node::gradient_dtype(), which for views of
/// parameters in bf16 is f32.
Var record_moved(const char* op, Tensor y, const std::vector<Var>& inputs, OpAttributes attributes, BackwardFunction backward);

/// As its value: see core/tensor.h.
void describe(std::ostream& out, const Var& x);
std::ostream& operator<<(std::ostream& out, const Var& x);

}  // namespace sluice
