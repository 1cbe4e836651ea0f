#include "layers/call.h"

#include "core/error.h"
#include "core/ops/embedding.h"

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

}  // namespace sluice::layers
