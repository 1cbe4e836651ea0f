#pragma once
#include <array>
#include <initializer_list>

#include "core/cuda/cudnn_graph.h"

namespace sluice::cudnn {

/// Where the elements of a tensor with four axes lie, in elements.
struct Layout {
  std::array<int64_t, 4> extents, strides;

  /// The last two axes exchanged.
  Layout transposed() const;
};

/// Makes a graph of several operations, which the library runs as one kernel where it knows their pattern. Tensors between them are
/// virtual: they have a layout, but no memory.
class Composition {
 public:
  struct Value {
    size_t part;
    Layout layout;
  };

  explicit Composition(const Library& library) : library_(library), graph_(std::make_shared<Graph>()) {}

  /// Operands and results in memory; their addresses are taken in the order of these calls. Each must be a multiple of kAlignment.
  Value tensor(cudnnDataType_t dtype, const Layout& layout);
  Value scalar(float value);
  Value between(cudnnDataType_t dtype, const Layout& layout);

  /// `to` = mode of the operands, of which the third one selects between the other two; answers `to`, as all operations do.
  /// `precision` is the arithmetic's; `axis` is for CUDNN_POINTWISE_GEN_INDEX.
  Value pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Value> operands, const Value& to,
                  cudnnDataType_t precision = CUDNN_DATA_FLOAT, std::optional<int64_t> axis = std::nullopt);
  /// Of the last two axes, added up in f32. A head of `b` serves several of `a` where there are fewer.
  Value product(const Value& a, const Value& b, const Value& to);
  /// Over the axes on which `to` has one element, in f32.
  Value reduction(cudnnReduceTensorOp_t operation, const Value& x, const Value& to);
  /// The same elements under the layout of `to`.
  Value seen_as(const Value& x, const Value& to);

  std::shared_ptr<const Graph> graph() &&;

 private:
  enum class Place { memory, host, nowhere };
  Value value(cudnnDataType_t dtype, const Layout& layout, Place place);
  void append(Descriptor operation);
  const Descriptor& part(const Value& value) const { return graph_->parts[value.part]; }

  const Library& library_;
  std::shared_ptr<Graph> graph_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::vector<int64_t> scalar_uids_;
  int64_t next_uid_ = 1;
};

}  // namespace sluice::cudnn
