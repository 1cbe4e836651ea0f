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

/// Of some samples of a split, spread evenly over it.
void add_samples(Hash& hash, const data::Dataset& dataset, data::Split split) {
  constexpr int64_t kSamples = 16;
  const int64_t size = dataset.size(split), looked_at = std::min(size, kSamples);
  for (int64_t i = 0; i < looked_at; ++i) {
    const int64_t sample = looked_at == 1 ? 0 : i * (size - 1) / (looked_at - 1);
    for (const std::string& input : dataset.inputs()) add(hash, dataset.load(input, split, 0, std::span(&sample, 1)));
  }
}

/// The part that training samples have no part in, which how they are prepared may change.
std::string held_out_part(const std::string& hash) { return hash.substr(0, hash.find(' ')); }

}  // namespace

std::string data_hash_of(const data::Dataset& dataset) {
  Hash held_out, trained;
  for (const std::string& input : dataset.inputs()) add(held_out, input);
  for (const auto split : {data::Split::train, data::Split::validation}) add(held_out, std::to_string(dataset.size(split)));
  add_samples(held_out, dataset, data::Split::validation);
  add_samples(trained, dataset, data::Split::train);
  return join(held_out.text(), " ", trained.text());
}

std::string told_of_other_data(const parallel::Checkpoint& checkpoint, const std::string& hash) {
  if (hash.empty() || !checkpoint.has_file(kDataHashFile)) return "";
  const std::string then = read_file(checkpoint.path_of(kDataHashFile));
  if (then == hash || then.size() != hash.size()) return "";
  const std::string hashes = join("(hash ", then, ", now ", hash, ")");
  if (held_out_part(then) == held_out_part(hash))
    return join(
        checkpoint.folder, ": its training samples were others, or were augmented, padded or cut otherwise ", hashes,
        ": it goes on as no uninterrupted training would; give the data that it had, prepared as it was, or begin a new training with "
        "its weights (parallel::initialize, --init)");
  return join(checkpoint.folder, ": was trained on other samples than those that are there now ", hashes,
              ": it goes on as no uninterrupted training would, samples that it was trained on may be validated on, and classes may have "
              "other names; give the data that it had, or begin a new training with its weights (parallel::initialize, --init)");
}

}  // namespace sluice::training
