#pragma once
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "autograd/var.h"
#include "core/ops/running_statistics.h"
#include "core/random.h"

namespace sluice::layers {

struct RunningStatistics {
  Tensor mean, variance;  ///< [channels]
};

/// Keys and values of the tokens seen so far, or of the memory, for generation: of one attention, and of the modules that a composite runs.
struct KeyValueCache {
  int64_t capacity = 0;     ///< tokens
  int64_t length = 0;       ///< tokens held
  bool of_memory = false;   ///< of an attention to another sequence, whose keys and values stay as they are
  Tensor keys{}, values{};  ///< [B, capacity or the memory's tokens, heads, head width]; made at the first use

  /// That of a composite's child; `use` counts how often the child ran before in the same forward.
  KeyValueCache& of(int child, int use);
  /// Row b goes on with what row parents[b] has seen; `parents` i32 [B] on the cache's device. Those of_memory stay.
  void select_rows(const Tensor& parents);
  /// For devices that only count: as if so many tokens had been seen.
  void set_length(int64_t tokens);
  std::map<std::pair<int, int>, std::shared_ptr<KeyValueCache>> children{};
};

enum class Role { input, parameter };
[[noreturn]] void refuse_reading(Role role, size_t i, size_t given);

/// A module's inputs or parameters. Reading one that is not there is an error, not foreign memory. Errors  UsageError naming it.
template <Role role>
class Given : public std::vector<Var> {
 public:
  using std::vector<Var>::vector;
  Given(std::vector<Var> all) : vector(std::move(all)) {}  // NOLINT: a list of values reads as what is given
  const Var& operator[](size_t i) const {
    if (i >= size()) refuse_reading(role, i, size());
    return data()[i];
  }
  const Var& front() const { return (*this)[0]; }
  const Var& back() const { return (*this)[empty() ? 0 : size() - 1]; }
};

/// What a loss multiplies its sum by: 1 / total weight of the mini-batch. Reads as that number, and notes that it was read, so that a loss
/// that forgets it is found at its first step. Copies share the note.
class LossScale {
 public:
  LossScale(double value) : value_(value) {}  // NOLINT: a plain number is a scale that nobody watches
  /// `is_read`  is set once the scale is read; it outlives all copies.
  LossScale(double value, bool& is_read) : value_(value), is_read_(&is_read) {}
  operator double() const {  // NOLINT: modules compute with it
    if (is_read_) *is_read_ = true;
    return value_;
  }

 private:
  double value_;
  bool* is_read_ = nullptr;
};

/// All that a module gets to compute one micro-batch. Modules hold no tensors, so one graph serves every device and micro-batch.
/// A Call serves one forward: it counts the runs of a composite's children. Copy it before to compute the same again.
struct Call {
  Given<Role::input> inputs;
  Given<Role::parameter> parameters;            ///< in the order of Module::parameters()
  std::vector<Tensor> tables{};                 ///< in the order of Module::tables()
  std::vector<RunningStatistics> statistics{};  ///< in the order of Module::statistics(), for evaluation
  /// Where the forward of a training step adds what it saw of its micro-batch, in the same order. Empty in evaluation, and in
  /// recomputation, so that nothing counts twice.
  std::span<std::vector<BatchMoments>> observed{};
  RandomStream random;  ///< this module's stream: same mask for the same (seed, step, node, sample, element)
  bool training = true;
  LossScale loss_scale = 1;  ///< losses multiply by it
  /// Of a loss, what Module::loss_weights() says of the mini-batch; empty in a call that is made by hand.
  std::vector<double> loss_weights{};
  int64_t first_position = 0;      ///< position of the first token (generation)
  KeyValueCache* cache = nullptr;  ///< this module's, set in generation
  /// Where each attention that runs without a cache adds its weights (attention_weights.h), to look at them; null: it computes none.
  std::vector<Tensor>* attention_weights = nullptr;
  /// Where each Loss adds the shape of what it sums, to check a graph; null: nobody looks.
  std::vector<Shape>* shapes_of_losses = nullptr;
  /// @{ New tensors on the device of the first input, in the dtype of the first floating input, f32 where there is none. Axis 0 of the random
  /// ones counts samples: each has numbers of its own, the same whatever the micro-batches and the partition, other ones each training step
  /// and each time that a forward asks. Errors  UsageError in a call without inputs.
  Tensor zeros(const Shape& shape) const { return full(shape, 0); }
  Tensor full(const Shape& shape, double value) const;
  Tensor normal(const Shape& shape) const;   ///< of mean 0 and standard deviation 1
  Tensor uniform(const Shape& shape) const;  ///< in [0, 1)
  /// @}
  mutable int draws = 0;  ///< how often the forward has asked for random ones

  /// How often the forward has run each of the module's children: see Composite::run.
  mutable std::vector<int> uses{};
};

/// The stream of a part of a module, its own for each of the part's uses: streams of parts differ from each other, from the module's and
/// from those of their own parts. The first uses of the first 16 parts keep the key and number their paths with a digit from 1 to 16 a
/// level; others have a key of their own.
RandomStream part_of(const RandomStream& stream, int part, int use = 0);

/// Of x [B, T, ...]: [B, 1, ...].
Tensor last_token(const Tensor& x);
/// What generation does with the call of the output: where it reads one value it is computed of the last token alone, as nobody asks for the
/// others.
void keep_last_token(Call& call);

}  // namespace sluice::layers
