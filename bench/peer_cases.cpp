// Writes what our layers of images compute, for a comparison with PyTorch: bench/peers/numerics.py reads it.
//
//   peer_cases FOLDER     one safetensors file a case: inputs, parameters, dy, output and all gradients, f32; metadata say what the case is
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "autograd/backward.h"
#include "core/file/safetensors.h"
#include "layers/batch_norm.h"
#include "layers/convolution.h"
#include "layers/pooling.h"
#include "layers/tables.h"
#include "models/amoebanet_cell.h"

namespace sluice::bench {
namespace {

using Fields = std::map<std::string, std::string>;

struct PeerCase {
  std::string name;
  Fields fields;  ///< what PyTorch has to build
  layers::ModulePtr module;
  std::vector<Shape> inputs;
};

constexpr int64_t kBatch = 4, kSize = 16, kFilters = 32;

std::string number(int64_t value) { return std::to_string(value); }

/// "parameter.003.edge0.conv.weight": the number keeps the order of the module in a file that is sorted by name.
std::string numbered(const char* kind, size_t index, const std::string& name) {
  const std::string digits = std::to_string(index);
  return std::string(kind) + "." + std::string(3 - digits.size(), '0') + digits + (name.empty() ? "" : "." + name);
}

Tensor random_tensor(const Shape& shape, const std::string& name, double mean = 0, double deviation = 1) {
  Tensor x = empty(shape);
  fill_normal(x, mean, deviation, random_key(7, name));
  return x;
}

/// Norms far enough from their start that a wrong gamma or beta shows.
Tensor random_parameter(const layers::ParameterSpec& spec, const std::string& name) {
  using Kind = layers::Initializer::Kind;
  const auto& start = spec.initializer;
  if (start.kind == Kind::normal) return random_tensor(spec.shape, name, 0, start.standard_deviation);
  return random_tensor(spec.shape, name, start.kind == Kind::ones ? 1 : 0, 0.2);
}

void write(const PeerCase& of, const std::filesystem::path& folder) {
  std::map<std::string, Tensor> tensors;
  std::vector<Var> leaves;
  std::vector<std::string> names;
  layers::Call call;
  const auto add = [&](const char* kind, const std::string& name, size_t index, const Var& leaf) {
    names.push_back(numbered("gradient", leaves.size(), ""));
    leaves.push_back(leaf);
    tensors[numbered(kind, index, name)] = leaf.value();
  };
  for (size_t i = 0; i < of.inputs.size(); ++i) {
    call.inputs.push_back(Var::input(random_tensor(of.inputs[i], of.name + number(static_cast<int64_t>(i)))));
    add("input", "", i, call.inputs.back());
  }
  const auto specs = of.module->parameters();
  for (size_t i = 0; i < specs.size(); ++i) {
    call.parameters.push_back(Var::parameter(random_parameter(specs[i], of.name + specs[i].name)));
    add("parameter", specs[i].name, i, call.parameters.back());
  }
  call.tables = layers::Tables(default_device(), DType::f32).of(*of.module);
  const Var y = of.module->forward(call);
  const Tensor dy = random_tensor(y.shape(), of.name + "dy");
  tensors["output"] = y.value();
  tensors["dy"] = dy;
  const auto all = gradients(y, dy, leaves);
  for (size_t i = 0; i < all.size(); ++i) tensors[names[i]] = all[i].contiguous();
  write_safetensors(folder / (of.name + ".safetensors"), tensors, of.fields);
}

Shape images(int64_t channels, int64_t size = kSize) { return {kBatch, size, size, channels}; }

PeerCase convolution(const std::string& name, int64_t in, int64_t out, const Window& window, int64_t groups, int64_t size) {
  return {name,
          {{"module", "convolution"},
           {"stride", number(window.stride_h) + "," + number(window.stride_w)},
           {"groups", number(groups)},
           {"padding", window.padding == Padding::same ? "same" : "valid"}},
          std::make_shared<layers::Conv2d>(in, out, window, groups),
          {images(in, size)}};
}

template <class Pool>
PeerCase pool(const std::string& kind, int64_t window, int64_t stride, int64_t size) {
  return {kind + "_pool_" + number(window) + "_stride_" + number(stride) + "_of_" + number(size) + "px",
          {{"module", "pool"}, {"kind", kind}, {"size", number(window)}, {"stride", number(stride)}},
          std::make_shared<Pool>(Window{window, window, stride, stride}),
          {images(kFilters, size)}};
}

/// A cell in the middle of a network; with `before_is_larger` the one after a reduction.
PeerCase cell(models::AmoebaNet network, bool is_reduction, bool before_is_larger) {
  const models::Genotype& of = is_reduction ? models::reduction_genotype(network) : models::normal_genotype(network);
  const int64_t last = 3 * kFilters, before = 2 * kFilters;
  const std::string genotype = network == models::AmoebaNet::d ? "d" : "b";
  const std::string name = genotype + (is_reduction ? "_reduction" : "_normal") + (before_is_larger ? "_after_a_reduction" : "");
  return {"cell_" + name,
          {{"module", "cell"},
           {"genotype", genotype},
           {"reduction", number(is_reduction)},
           {"before_is_larger", number(before_is_larger)},
           {"filters", number(kFilters)}},
          std::make_shared<models::Cell>(models::Cell::Options{.genotype = &of,
                                                               .last = last,
                                                               .before = before,
                                                               .filters = kFilters,
                                                               .is_reduction = is_reduction,
                                                               .before_is_larger = before_is_larger}),
          {images(last), images(before, before_is_larger ? 2 * kSize : kSize)}};
}

std::vector<PeerCase> all_cases() {
  std::vector<PeerCase> cases;
  for (const auto network : {models::AmoebaNet::d, models::AmoebaNet::b})
    for (bool is_reduction : {false, true})
      for (bool before_is_larger : {false, true}) cases.push_back(cell(network, is_reduction, before_is_larger));
  for (int64_t size : {16, 15})
    for (int64_t stride : {1, 2}) {
      const std::string end = "_stride_" + number(stride) + "_of_" + number(size) + "px";
      for (const auto& [height, width] : {std::pair{1, 1}, {3, 3}, {1, 7}, {7, 1}}) {
        const Window window{height, width, height == 1 && width > 1 ? 1 : stride, width == 1 && height > 1 ? 1 : stride};
        cases.push_back(convolution("convolution_" + number(height) + "x" + number(width) + end, 24, 40, window, 1, size));
      }
      for (int64_t window : {3, 5})
        cases.push_back(convolution("depthwise_" + number(window) + "x" + number(window) + end, kFilters, kFilters,
                                    {window, window, stride, stride}, kFilters, size));
      for (int64_t window : {2, 3})
        if (window == 3 || stride == 2) cases.push_back(pool<layers::MaxPool2d>("max", window, stride, size));
      cases.push_back(pool<layers::AveragePool2d>("average", 3, stride, size));
    }
  cases.push_back(convolution("stem", 3, 32, {3, 3, 2, 2, Padding::valid}, 1, 33));
  cases.push_back({"batch_norm", {{"module", "norm"}}, std::make_shared<layers::BatchNorm>(48), {images(48)}});
  cases.push_back(
      {"factorized_reduction", {{"module", "factorized_reduction"}}, std::make_shared<layers::FactorizedReduction>(24, 32), {images(24)}});
  return cases;
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "peer_cases: needs the folder to write to, got %d arguments; try: peer_cases cases\n", argc - 1);
    return 2;
  }
  try {
    std::filesystem::create_directories(argv[1]);
    for (const auto& of : sluice::bench::all_cases()) write(of, argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "peer_cases: error: %s\n", error.what());
    return 2;
  }
}
