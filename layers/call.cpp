#include "layers/call.h"

#include "core/error.h"
#include "core/ops/embedding.h"
#include "core/ops/noise.h"

namespace sluice::layers {

KeyValueCache& KeyValueCache::of(int child, int use) {
  auto& cache = children[{child, use}];
  if (!cache) {
    cache = std::make_shared<KeyValueCache>();
    cache->capacity = capacity;
  }
  return *cache;
}

void KeyValueCache::select_rows(const Tensor& parents) {
  const auto select = [&](Tensor& x) { x = embedding(parents, x.reshape({x.dim(0), x.elements() / x.dim(0)})).reshape(x.shape()); };
  if (keys.defined() && !of_memory) {
    select(keys);
    select(values);
  }
  for (auto& [place, cache] : children) cache->select_rows(parents);
}

void KeyValueCache::set_length(int64_t tokens) {
  if (!of_memory) length = tokens;
  for (auto& [place, cache] : children) cache->set_length(tokens);
}

void refuse_reading(Role role, size_t i, size_t given) {
  const bool is_input = role == Role::input;
  throw UsageError(join("module: reads its ", is_input ? "input " : "parameter ", i, ", got ", given, is_input ? " inputs" : " parameters",
                        "; declare what it reads in Module::", is_input ? "input_count()" : "parameters()"));
}

RandomStream part_of(const RandomStream& stream, int part, int use) {
  constexpr uint64_t kNumbered = 16;  // bijective numeration: each number is one path
  RandomStream result = stream;
  const uint64_t number = stream.use * kNumbered + static_cast<uint64_t>(part) + 1;
  if (static_cast<uint64_t>(part) < kNumbered && use == 0 && number <= UINT32_MAX) {
    result.use = static_cast<uint32_t>(number);
  } else {
    result.key = random_key(stream.key, join(stream.use, "/", part, "/", use));
    result.use = 0;
  }
  return result;
}

namespace {

constexpr int kFirstDraw = 1 << 20;  // of the numbers of a module's parts, behind those of all children

DType dtype_of_activations(const Call& call) {
  for (const Var& x : call.inputs)
    if (is_floating(x.dtype())) return x.dtype();
  return DType::f32;
}

Tensor drawn(const Call& call, Noise kind, const Shape& shape) {
  const RandomStream stream = part_of(call.random, kFirstDraw + call.draws++);
  return noise(kind, shape, stream, dtype_of_activations(call), call.inputs[0].value().device_ptr());
}

}  // namespace

Tensor Call::full(const Shape& shape, double value) const {
  return sluice::full(shape, value, dtype_of_activations(*this), inputs[0].value().device_ptr());
}

Tensor Call::normal(const Shape& shape) const { return drawn(*this, Noise::normal, shape); }

Tensor Call::uniform(const Shape& shape) const { return drawn(*this, Noise::uniform, shape); }

}  // namespace sluice::layers
