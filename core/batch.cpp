#include "core/batch.h"

#include <memory>

#include "core/suggestion.h"

namespace sluice {

Batch batch_of(std::initializer_list<NamedTensor> inputs) {
  std::map<std::string, Tensor> by_name;
  for (const auto& [name, tensor] : inputs)
    require(by_name.emplace(name, tensor).second, "batch_of: got input '", name, "' twice; give each input once");
  return batch_of(std::move(by_name));
}

Batch batch_of(std::map<std::string, Tensor> inputs) {
  require(!inputs.empty(), "batch_of: needs at least one input, got none; give a tensor for each input of the graph");
  for (const auto& [name, tensor] : inputs)
    require(tensor.defined() && tensor.rank() >= 1, "batch_of: needs samples along the first axis of input '", name, "', got ", tensor,
            "; stack() makes a batch of samples");
  const int64_t samples = inputs.begin()->second.dim(0);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : inputs) {
    require(tensor.dim(0) == samples, "batch_of: needs ", samples, " samples in every input, got ", tensor.shape(), " for '", name, "'");
    names.push_back(name);
  }
  const auto shared = std::make_shared<const std::map<std::string, Tensor>>(std::move(inputs));
  return {samples, [shared, names](const std::string& input, int64_t first, int64_t count) {
            const auto found = shared->find(input);
            require(found != shared->end(), "batch: the model asks for input '", input, "', which is not in the batch",
                    suggestion(input, names));
            return found->second.slice(0, first, first + count);
          }};
}

}  // namespace sluice
