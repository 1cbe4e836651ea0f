// oneDNN's convolutions, of versions 2.x and 3.x, whose primitive descriptors are made differently.
#include "core/cpu/onednn_convolution.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <tuple>

#include "core/cpu/onednn_engine.h"
#include "core/cpu/onednn_library.h"

namespace sluice::onednn {

namespace {

using Pass = ConvolutionPass;
using Tag = dnnl::memory::format_tag;

/// A compiled convolution with its memory handles. The library chooses the layout of the weights: they are reordered before it, their
/// gradient after it. Those that nothing reaches are left out.
struct Compiled {
  dnnl::memory x, y, weights, packed_weights, scratch;
  Bound convolution, reorder;
  int64_t packed_bytes = 0, scratch_bytes = 0;
  int64_t weights_begin = 0;  ///< bytes before the first that is reached
  int64_t idle_bytes = 0;     ///< of a gradient of weights that are not all reached
};

/// Along one axis, the taps of a window that some place of it has within the image: of seven over two pixels, three. A library multiplies
/// padding like all else.
struct Reach {
  Reach(int64_t in, int64_t out, int64_t size, int64_t stride, int64_t before) {
    for (int64_t tap = 0; tap < size; ++tap) {
      const int64_t place = std::max<int64_t>(0, (before - tap + stride - 1) / stride);  // the first that is not before the image
      if (place >= out || place * stride - before + tap >= in) continue;
      if (count == 0) first = tap;
      has_gap = has_gap || tap > first + count;
      count = tap - first + 1;
    }
  }

  int64_t first = 0, count = 0;  ///< from the first of them to the last
  bool has_gap = false;          ///< a tap between these that no place has
};
Reach reach_of_rows(const Convolution& c) { return {c.in_h, c.out_h, c.size_h, c.stride_h, c.before_h}; }
Reach reach_of_columns(const Convolution& c) { return {c.in_w, c.out_w, c.size_w, c.stride_w, c.before_w}; }

/// The same convolution by the taps that are reached.
Convolution reached(Convolution c) {
  const Reach rows = reach_of_rows(c), columns = reach_of_columns(c);
  c.size_h = rows.count;
  c.size_w = columns.count;
  c.before_h -= rows.first;
  c.before_w -= columns.first;
  return c;
}

/// Layout: a tag, or how many elements lie between neighbours along each axis.
template <class Layout>
dnnl::memory::desc described(const dnnl::memory::dims& extents, DType dtype, const Layout& layout) {
  return {extents, dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32, layout};
}

/// `arguments` are those of the operation; a gradient has the forward pass as a hint.
template <class Primitive, class... Arguments, class... Hint>
typename Primitive::primitive_desc primitive_of(const std::tuple<Arguments...>& arguments, const Hint&... hint) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto make = [&](const auto&... of) -> typename Primitive::primitive_desc {
#if DNNL_VERSION_MAJOR >= 3
    return {engine(), of..., hint..., attributes};
#else
    return {typename Primitive::desc(of...), attributes, engine(), hint...};
#endif
  };
  return std::apply(make, arguments);
}

/// The names that a pass has for x, y and the weights.
struct Names {
  int x, y, weights;
};

template <class Description>
Compiled compiled(const Description& description, const Names& names, const dnnl::memory::desc& x, const dnnl::memory::desc& y,
                  const dnnl::memory::desc& weights, const dnnl::memory::desc& packed) {
  // The reference kernels are slower than a matrix product of columns.
  if (std::string_view(description.impl_info_str()).starts_with("ref")) throw dnnl::error(dnnl_unimplemented, "convolution");
  Compiled result;
  result.x = handle(x);
  result.y = handle(y);
  result.weights = handle(weights);
  result.packed_weights = handle(packed);
  result.scratch = handle(description.scratchpad_desc());
  result.convolution =
      Bound(dnnl::primitive(description.get()),
            {{names.x, result.x}, {names.y, result.y}, {names.weights, result.packed_weights}, {DNNL_ARG_SCRATCHPAD, result.scratch}});
  const bool packs_result = names.weights == DNNL_ARG_DIFF_WEIGHTS;
  const dnnl::memory &from = packs_result ? result.packed_weights : result.weights,
                     &to = packs_result ? result.weights : result.packed_weights;
  result.reorder = Bound(dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  result.packed_bytes = static_cast<int64_t>(packed.get_size() + 63) / 64 * 64;  // whole cache lines, so that the scratchpad is aligned
  result.scratch_bytes = static_cast<int64_t>(description.scratchpad_desc().get_size());
  return result;
}

/// Padding after the last pixel; negative where a window without padding leaves pixels out.
int64_t padding_after(int64_t in, int64_t out, int64_t size, int64_t stride, int64_t before) {
  return (out - 1) * stride + size - in - before;
}

/// Of weights with so many elements between neighbours along their axes.
/// Errors  dnnl::error when this CPU has no such convolution.
Compiled compile_reached(const Convolution& c, const dnnl::memory::dims& weight_steps) {
  const bool is_gradient_of_weights = c.pass == Pass::weight_gradient;
  const DType weight_dtype = is_gradient_of_weights ? DType::f32 : c.dtype;
  const dnnl::memory::dims weight_extents{c.outputs, c.channels, c.size_h, c.size_w}, strides{c.stride_h, c.stride_w},
      before{c.before_h, c.before_w},
      after{padding_after(c.in_h, c.out_h, c.size_h, c.stride_h, c.before_h),
            padding_after(c.in_w, c.out_w, c.size_w, c.stride_w, c.before_w)};
  const auto x = described({c.images, c.channels, c.in_h, c.in_w}, c.dtype, Tag::nhwc),
             y = described({c.images, c.outputs, c.out_h, c.out_w}, c.dtype, Tag::nhwc),
             weights = described(weight_extents, weight_dtype, weight_steps);
  const auto chosen = [&](DType dtype) { return described(weight_extents, dtype, Tag::any); };
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  const auto forward = primitive_of<dnnl::convolution_forward>(
      std::tuple(dnnl::prop_kind::forward_training, kDirect, x, chosen(c.dtype), y, strides, before, after));
  if (c.pass == Pass::forward)
    return compiled(forward, {DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WEIGHTS}, x, y, weights, forward.weights_desc());
  if (c.pass == Pass::input_gradient) {
    const auto gradient =
        primitive_of<dnnl::convolution_backward_data>(std::tuple(kDirect, x, chosen(c.dtype), y, strides, before, after), forward);
    return compiled(gradient, {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS}, x, y, weights, gradient.weights_desc());
  }
  const auto gradient =
      primitive_of<dnnl::convolution_backward_weights>(std::tuple(kDirect, x, chosen(DType::f32), y, strides, before, after), forward);
  return compiled(gradient, {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}, x, y, weights, gradient.diff_weights_desc());
}

/// Errors  dnnl::error when this CPU has no such convolution.
Compiled compile(const Convolution& c) {
  const int64_t column = c.channels, row = c.size_w * column, output = c.size_h * row;
  Compiled result = compile_reached(reached(c), {output, 1, row, column});
  const DType dtype = c.pass == Pass::weight_gradient ? DType::f32 : c.dtype;
  const Reach rows = reach_of_rows(c), columns = reach_of_columns(c);
  result.weights_begin = (rows.first * row + columns.first * column) * static_cast<int64_t>(size_of(dtype));
  if (rows.count < c.size_h || columns.count < c.size_w) result.idle_bytes = c.outputs * output * static_cast<int64_t>(size_of(dtype));
  return result;
}

/// Of a gap the kernels of version 2.6 for bf16 leave the gradient as the memory was.
bool leaves_gradients_unwritten(const Convolution& c) {
  return c.pass == Pass::weight_gradient && c.dtype == DType::bf16 && (reach_of_rows(c).has_gap || reach_of_columns(c).has_gap);
}

Compiled* find(const Convolution& convolution) { return find_compiled<Compiled>(convolution, compile); }

}  // namespace

std::optional<int64_t> scratch_bytes(const Convolution& convolution) {
  const bool is_served = convolution.dtype == DType::f32 || (convolution.dtype == DType::bf16 && !emulates_bf16());
  if (!is_served || leaves_gradients_unwritten(convolution)) return std::nullopt;
  const Compiled* compiled = find(convolution);
  return compiled ? std::optional(compiled->packed_bytes + compiled->scratch_bytes) : std::nullopt;
}

void convolve(const Convolution& convolution, const void* first, const void* second, void* result, void* scratch) {
  Compiled* c = find(convolution);
  require<DeviceError>(c != nullptr, "convolution: oneDNN has none of ", convolution.size_h, " x ", convolution.size_w, " in ",
                       name_of(convolution.dtype));
  const OneThread guard;
  set(c->packed_weights, scratch);
  set(c->scratch, static_cast<char*>(scratch) + c->packed_bytes);
  if (convolution.pass == Pass::weight_gradient) {
    set(c->y, first);
    set(c->x, second);
    set(c->weights, static_cast<char*>(result) + c->weights_begin);
    std::memset(result, 0, static_cast<size_t>(c->idle_bytes));
    c->convolution.run();
    return c->reorder.run();
  }
  const bool is_forward = convolution.pass == Pass::forward;
  set(is_forward ? c->x : c->y, first);
  set(is_forward ? c->y : c->x, result);
  set(c->weights, static_cast<const char*>(second) + c->weights_begin);
  c->reorder.run();
  c->convolution.run();
}

}  // namespace sluice::onednn
