#include "autograd/ops/gather.h"
#include "core/ops/copy.h"
#include "core/ops/one_hot.h"
#include "tests/ops/places.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Indices that the test chooses.
InputSpec chosen(const Shape& shape, std::vector<double> elements, DType dtype = DType::i32) {
  return {[=] { return tensor_of(elements, shape, dtype); }};
}

/// The place in x that an element at `place` of gather's result, or of index_select's, comes from.
Place source_of(Place place, int axis, const Tensor& index, const Values& indices, bool takes_slices) {
  place[axis] = static_cast<int64_t>(indices[takes_slices ? place[axis] : offset_of(index.shape(), place)]);
  return place;
}

/// gather and index_select by plain loops; the inputs are x and the index.
auto naive_take(int axis, bool takes_slices) {
  return [=](const std::vector<Tensor>& x) {
    const Values from = x[0].to_vector(), indices = x[1].to_vector();
    Values y;
    each_place(takes_slices ? x[0].shape().with(axis, x[1].dim(0)) : x[1].shape(), [&](const Place& place) {
      y.push_back(from[offset_of(x[0].shape(), source_of(place, axis, x[1], indices, takes_slices))]);
    });
    return y;
  };
}

/// scatter_add and index_add by plain loops; the inputs are x, the index and the source.
auto naive_put(int axis, bool takes_slices) {
  return [=](const std::vector<Tensor>& x) {
    Values y = x[0].to_vector();
    const Values indices = x[1].to_vector(), source = x[2].to_vector();
    each_place(x[2].shape(), [&](const Place& place) {
      y[offset_of(x[0].shape(), source_of(place, axis, x[1], indices, takes_slices))] += source[offset_of(x[2].shape(), place)];
    });
    return y;
  };
}

using Add = const std::function<void(OpCase)>&;

void take_case(Add add, const char* name, InputSpec x, int axis, InputSpec index, bool takes_slices) {
  const auto run = [=](const auto& in) {
    return takes_slices ? index_select(in[0], axis, in[1].value()) : gather(in[0], axis, in[1].value());
  };
  add({.name = name, .inputs = {std::move(x), std::move(index)}, .run = run, .expect = naive_take(axis, takes_slices)});
}

void put_case(Add add, const char* name, InputSpec x, int axis, InputSpec index, InputSpec source, bool takes_slices) {
  const auto run = [=](const auto& in) {
    return takes_slices ? index_add(in[0], axis, in[1].value(), in[2]) : scatter_add(in[0], axis, in[1].value(), in[2]);
  };
  add({.name = name,
       .inputs = {std::move(x), std::move(index), std::move(source)},
       .run = run,
       .expect = naive_put(axis, takes_slices),
       .tolerance_scale = 4});
}

}  // namespace

OP_CASES(gather) {
  const auto with = [&](const char* name, InputSpec x, int axis, InputSpec index) { take_case(add, name, x, axis, index, false); };
  with("last", randn({3, 5}), 1, indices({3, 4}, 5));
  with("first", randn({5, 3}), 0, indices({7, 3}, 5, DType::i64));
  with("middle", randn({2, 5, 3}), 1, indices({2, 4, 3}, 5, DType::u8));
  with("repeated", randn({2, 3}), 1, chosen({2, 4}, {1, 1, 1, 0, 2, 2, 0, 2}));
  with("many_of_one", randn({2, 3}), 1, chosen({2, 300}, std::vector<double>(600, 1)));
  with("one", randn({1}), 0, chosen({1}, {0}));
  with("none", randn({2, 3}), 1, indices({2, 0}, 3));
  with("no_rows", randn({0, 3}), 1, indices({0, 2}, 3));
  with("views", transposed(randn({5, 3}), 0, 1), 1, transposed(indices({4, 3}, 5), 0, 1));
  with("misaligned", misaligned({4, 16}), 0, indices({5, 16}, 4));
  add({.name = "shared_by_threads",
       .inputs = {randn({3, 600}), indices({200, 600}, 3)},
       .run = [](const auto& x) { return gather(x[0], 0, x[1].value()); },
       .expect = naive_take(0, false),
       .gradient = false});
  const auto bad = [&](const char* name, InputSpec x, InputSpec index, const char* throws) {
    add({.name = name, .inputs = {x, index}, .run = [](const auto& in) { return gather(in[0], 1, in[1].value()); }, .throws = throws});
  };
  bad("too_large", randn({2, 3}), chosen({2, 2}, {0, 1, 3, 7}), "indexing: needs indices in [0, 3), got 3 at position 2");
  bad("negative", randn({2, 3}), chosen({2, 1}, {0, -1}, DType::i64), "in [0, 3), got -1 at position 1");
  bad("other_rows", randn({2, 3}), indices({3, 2}, 3), "gather: needs an index that differs from [2, 3] in axis 1 only");
  bad("other_rank", randn({2, 3}), indices({2}, 3), "differs from [2, 3] in axis 1 only");
  bad("floating_index", randn({2, 3}), randn({2, 3}), "gather: needs an index of an integer dtype");
  add({.name = "of_integers",
       .inputs = {indices({3, 4}, 100), indices({3, 2}, 4)},
       .run = [](const auto& x) { return Var(gather(x[0].value(), 1, x[1].value())); },
       .expect = naive_take(1, false),
       .gradient = false});
  add({.name = "bad_of_integers",
       .inputs = {indices({3, 4}, 100), chosen({3, 1}, {0, 4, 0})},
       .run = [](const auto& x) { return Var(gather(x[0].value(), 1, x[1].value())); },
       .throws = "in [0, 4), got 4 at position 1"});
  add({.name = "target_probabilities",
       .inputs = {randn({2048, 8192}), indices({2048, 1}, 8192)},
       .run = [](const auto& x) { return gather(x[0], 1, x[1].value()); },
       .bench = true});
}

OP_CASES(index_select) {
  const auto with = [&](const char* name, InputSpec x, int axis, InputSpec index) { take_case(add, name, x, axis, index, true); };
  with("rows", randn({5, 3}), 0, chosen({4}, {4, 0, 4, 2}));
  with("columns", randn({3, 5}), 1, indices({7}, 5, DType::i64));
  with("middle", randn({2, 5, 3}), 1, indices({4}, 5, DType::u8));
  with("of_vector", randn({5}), 0, indices({3}, 5));
  with("none", randn({5, 3}), 0, indices({0}, 5));
  with("no_columns", randn({5, 0}), 0, indices({2}, 5));
  with("views", transposed(randn({5, 3}), 0, 1), 1, sliced(indices({6}, 5), 0, 2, 6));
  with("long_rows", randn({5, 70}), 0, indices({4}, 5));
  with("rows_of_whole_packs", randn({2, 5, 8, 16}), 1, indices({4}, 5));
  with("misaligned", misaligned({4, 16}), 0, indices({5}, 4));
  const auto bad = [&](const char* name, InputSpec index, const char* throws) {
    add({.name = name,
         .inputs = {randn({2, 3}), index},
         .run = [](const auto& in) { return index_select(in[0], 1, in[1].value()); },
         .throws = throws});
  };
  bad("too_large", chosen({2}, {0, 3}), "in [0, 3), got 3 at position 1");
  add({.name = "too_large_of_long_rows",
       .inputs = {randn({2, 3, 70}), chosen({3}, {0, 2, -1})},
       .run = [](const auto& in) { return index_select(in[0], 1, in[1].value()); },
       .throws = "in [0, 3), got -1 at position 2"});
  bad("matrix", indices({2, 2}, 3), "index_select: needs an index [M]");
  bad("floating_index", randn({2}), "needs an index of an integer dtype");
  add({.name = "tokens",
       .inputs = {randn({2048, 384}), indices({2048}, 2048)},
       .run = [](const auto& x) { return index_select(x[0], 0, x[1].value()); },
       .bench = true});
}

OP_CASES(scatter_add) {
  const auto with = [&](const char* name, InputSpec x, int axis, InputSpec index, InputSpec source) {
    put_case(add, name, x, axis, index, source, false);
  };
  with("last", randn({3, 5}), 1, indices({3, 4}, 5), randn({3, 4}));
  with("first", randn({5, 3}), 0, indices({7, 3}, 5, DType::i64), randn({7, 3}));
  with("middle", randn({2, 5, 3}), 1, indices({2, 9, 3}, 5, DType::u8), randn({2, 9, 3}));
  with("many_of_one", randn({1, 3}), 1, chosen({1, 600}, std::vector<double>(600, 2)), randn({1, 600}, 0.1));
  with("several_blocks", randn({2, 40}), 0, indices({70, 40}, 2), randn({70, 40}, 0.1));
  with("one", randn({1}), 0, chosen({1}, {0}), randn({1}));
  with("none", randn({2, 3}), 1, indices({2, 0}, 3), randn({2, 0}));
  with("views", transposed(randn({5, 3}), 0, 1), 1, transposed(indices({4, 3}, 5), 0, 1), transposed(randn({4, 3}), 0, 1));
  with("misaligned", misaligned({4, 16}), 0, indices({5, 16}, 4), misaligned({5, 16}));
  add({.name = "shared_by_threads",
       .inputs = {randn({3, 600}), indices({200, 600}, 3), randn({200, 600}, 0.1)},
       .run = [](const auto& x) { return scatter_add(x[0], 0, x[1].value(), x[2]); },
       .expect = naive_put(0, false),
       .gradient = false,
       .tolerance_scale = 4});
  const auto bad = [&](const char* name, InputSpec index, InputSpec source, const char* throws) {
    add({.name = name,
         .inputs = {randn({2, 3}), index, source},
         .run = [](const auto& in) { return scatter_add(in[0], 1, in[1].value(), in[2]); },
         .throws = throws});
  };
  bad("too_large", chosen({2, 2}, {0, 1, 3, 7}), randn({2, 2}), "in [0, 3), got 3 at position 2");
  bad("other_source", indices({2, 2}, 3), randn({2, 3}), "scatter_add: needs a source [2, 2] of x's floating dtype");
  bad("source_of_integers", indices({2, 2}, 3), indices({2, 2}, 3), "of x's floating dtype");
  add({.name = "experts",
       .inputs = {randn({2048, 64}), indices({2048, 8}, 64), randn({2048, 8})},
       .run = [](const auto& x) { return scatter_add(x[0], 1, x[1].value(), x[2]); },
       .bench = true});
}

OP_CASES(index_add) {
  const auto with = [&](const char* name, InputSpec x, int axis, InputSpec index, InputSpec source) {
    put_case(add, name, x, axis, index, source, true);
  };
  with("rows", randn({5, 3}), 0, chosen({4}, {4, 0, 4, 2}), randn({4, 3}));
  with("columns", randn({3, 5}), 1, indices({7}, 5, DType::i64), randn({3, 7}));
  with("middle", randn({2, 5, 3}), 1, indices({4}, 5, DType::u8), randn({2, 4, 3}));
  with("of_vector", randn({5}), 0, indices({30}, 5), randn({30}));
  with("none", randn({5, 3}), 0, indices({0}, 5), randn({0, 3}));
  with("views", transposed(randn({5, 3}), 0, 1), 1, sliced(indices({6}, 5), 0, 2, 6), transposed(randn({4, 3}), 0, 1));
  const auto bad = [&](const char* name, int axis, InputSpec index, InputSpec source, const char* throws) {
    add({.name = name,
         .inputs = {randn({2, 3}), index, source},
         .run = [=](const auto& in) { return index_add(in[0], axis, in[1].value(), in[2]); },
         .throws = throws});
  };
  bad("too_large_row", 0, chosen({2}, {0, 2}), randn({2, 3}), "in [0, 2), got 2 at position 1");
  bad("too_large_column", 1, chosen({2}, {-1, 3}), randn({2, 2}), "in [0, 3), got -1 at position 0");
  bad("other_source", 0, indices({2}, 2), randn({3, 3}), "index_add: needs a source [2, 3]");
  add({.name = "tokens",
       .inputs = {randn({2048, 384}), indices({2048}, 2048), randn({2048, 384})},
       .run = [](const auto& x) { return index_add(x[0], 0, x[1].value(), x[2]); },
       .bench = true});
}

OP_CASES(one_hot) {
  const auto with = [&](const char* name, InputSpec index, int64_t classes, DType dtype) {
    const auto run = [=](const auto& x) { return Var(one_hot(x[0].value(), classes, dtype)); };
    const auto expect = [=](const auto& x) {
      Values y;
      for (double index : x[0].to_vector())
        for (int64_t c = 0; c < classes; ++c) y.push_back(index == static_cast<double>(c));
      return y;
    };
    add({.name = name, .inputs = {std::move(index)}, .run = run, .expect = expect, .gradient = false});
  };
  with("small", indices({2, 3}, 5), 5, DType::f32);
  with("bytes", indices({40}, 3), 3, DType::u8);
  with("bf16_of_view", transposed(indices({2, 3}, 7, DType::i64), 0, 1), 7, DType::bf16);
  with("scalar", chosen({}, {1}), 2, DType::f64);
  with("none", indices({0}, 3), 3, DType::i64);
  const auto run = [](const auto& x) { return Var(one_hot(x[0].value(), 3)); };
  add({.name = "too_large", .inputs = {chosen({2}, {0, 3})}, .run = run, .throws = "in [0, 3), got 3 at position 1"});
  add({.name = "floating", .inputs = {randn({2})}, .run = run, .throws = "one_hot: needs an index of an integer dtype"});
  add({.name = "experts",
       .inputs = {indices({2048, 8}, 64)},
       .run = [](const auto& x) { return Var(one_hot(x[0].value(), 64)); },
       .gradient = false,
       .bench = true});
}
