#include "training/data_hash.h"

#include <algorithm>

#include "core/file/file.h"
#include "core/file/hash.h"

namespace sluice::training {

namespace {

void add(Hash& hash, const std::string& text) { hash.add(text.data(), text.size() + 1); }  // with its end, which parts it from the next

void add(Hash& hash, const Tensor& x) {
  add(hash, join(name_of(x.dtype()), " ", x.shape()));
  const Tensor whole = x.contiguous();
  if (whole.bytes() > 0) hash.add(whole.data(), static_cast<size_t>(whole.bytes()));
}

}  // namespace

std::string data_hash_of(const data::Dataset& dataset) {
  constexpr int64_t kSamples = 16;
  Hash hash;
  const std::vector<std::string> inputs = dataset.inputs();
  for (const std::string& input : inputs) add(hash, input);
  for (const auto split : {data::Split::train, data::Split::validation}) {
    const int64_t size = dataset.size(split), looked_at = std::min(size, kSamples);
    add(hash, std::to_string(size));
    for (int64_t i = 0; i < looked_at; ++i) {
      const int64_t sample = looked_at == 1 ? 0 : i * (size - 1) / (looked_at - 1);
      for (const std::string& input : inputs) add(hash, dataset.load(input, split, 0, std::span(&sample, 1)));
    }
  }
  return hash.text();
}

std::string told_of_other_data(const parallel::Checkpoint& checkpoint, const std::string& hash) {
  if (hash.empty() || !checkpoint.has_file(kDataHashFile)) return "";
  const std::string then = read_file(checkpoint.path_of(kDataHashFile));
  if (then == hash) return "";
  return join(
      checkpoint.folder, ": was trained on other samples than those that are there now (hash ", then, ", now ", hash,
      "): it goes on as no uninterrupted training would, samples that it was trained on may be validated on, and classes may have other "
      "names; give the data that it had, or begin a new training with its weights (--init)");
}

}  // namespace sluice::training
