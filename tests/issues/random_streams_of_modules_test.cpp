// From the 17th child on modules drew the random numbers of others, and a child that ran twice drew the same ones twice.
#include <gtest/gtest.h>

#include <set>

#include "autograd/ops/concat.h"
#include "autograd/ops/drop_path.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/operators.h"
#include "autograd/ops/reshape.h"
#include "layers/dropout.h"
#include "layers/feed_forward.h"
#include "layers/graph.h"
#include "layers/linear.h"
#include "layers/losses.h"
#include "models/amoebanet_cell.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"

namespace sluice::layers {
namespace {

constexpr int64_t kWidth = 256;  // two masks of so many elements are equal by accident once in 2^256

Call call_on(const Tensor& x, uint32_t step = 3) {
  Call call;
  call.inputs = {Var(x)};
  call.random = {.key = random_key(1, "node"), .step = step};
  return call;
}

const Tensor& ones() {
  static const Tensor x = full({1, kWidth}, 1);
  return x;
}

/// The rows of masks that a module made, as sets, so that equal ones show.
size_t different_masks(const Var& masks) {
  const std::vector<double> all = masks.value().to_vector();
  std::set<std::vector<double>> different;
  for (size_t row = 0; row < all.size(); row += kWidth) different.insert({all.begin() + row, all.begin() + row + kWidth});
  return different.size();
}

/// The masks of `children` dropouts, each of them for `times` times; one beside the other.
class Wide : public Composite {
 public:
  explicit Wide(int children, int times = 1) : times_(times) {
    for (int i = 0; i < children; ++i) children_.push_back(add(std::to_string(i), Dropout(0.5)));
  }
  Var forward(const Call& call) const override {
    std::vector<Var> masks;
    for (int time = 0; time < times_; ++time)
      for (int child : children_) masks.push_back(run(call, child, call.inputs));
    return concat(masks, 1);
  }

 private:
  int times_;
  std::vector<int> children_;
};

/// As many such modules.
class WideTwice : public Composite {
 public:
  explicit WideTwice(int children, int times = 1) : times_(times) {
    for (int i = 0; i < children; ++i) children_.push_back(add(std::to_string(i), Wide(children, times)));
    own_ = add("own", Wide(children, times));
  }
  Var forward(const Call& call) const override {
    std::vector<Var> masks{dropout(call.inputs[0], 0.5, call.random), run(call, own_, call.inputs)};
    for (int time = 0; time < times_; ++time)
      for (int child : children_) masks.push_back(run(call, child, call.inputs));
    return concat(masks, 1);
  }

 private:
  int times_, own_;
  std::vector<int> children_;
};

/// A mask of its own beside those of its sixteenth child.
class Deep : public Composite {
 public:
  explicit Deep(int depth) {
    for (int i = 0; i < 15; ++i) add(std::to_string(i), ReLU());
    if (depth > 0) next_ = add("next", Deep(depth - 1));
  }
  Var forward(const Call& call) const override {
    const Var mask = dropout(call.inputs[0], 0.5, call.random);
    return next_ < 0 ? mask : concat({mask, run(call, next_, call.inputs)}, 1);
  }

 private:
  int next_ = -1;
};

TEST(RandomStreams, OfChildrenAreTheirOwnHoweverManyThereAre) {
  EXPECT_EQ(different_masks(Wide(40).forward(call_on(ones()))), 40u);
  EXPECT_EQ(different_masks(WideTwice(20).forward(call_on(ones()))), 1u + 21u * 20u);
}

TEST(RandomStreams, OfChildrenAreTheirOwnHoweverDeepTheyAre) { EXPECT_EQ(different_masks(Deep(12).forward(call_on(ones()))), 13u); }

TEST(RandomStreams, OfEachUseOfAChildAreItsOwn) {
  EXPECT_EQ(different_masks(Wide(3, 3).forward(call_on(ones()))), 9u);
  EXPECT_EQ(different_masks(WideTwice(3, 2).forward(call_on(ones()))), 1u + 7u * 6u);
}

TEST(RandomStreams, AreTheSameAtEveryForward) {
  const WideTwice module(18, 2);
  const auto masks = [&](uint32_t step) { return module.forward(call_on(ones(), step)).value().to_vector(); };
  EXPECT_EQ(masks(3), masks(3));
  EXPECT_NE(masks(3), masks(4));
}

/// What was trained before keeps its masks: the path to a child is a number with a digit from 1 to 16 for each level.
TEST(RandomStreams, OfTheFirstSixteenChildrenAreNumberedByTheirPath) {
  const auto outer = Sequence().then("0", ReLU()).then("1", Sequence().then("0", ReLU()).then("1", ReLU()).then("2", Dropout(0.5)));
  RandomStream stream = call_on(ones()).random;
  stream.use = (1 + 1) * 16 + (2 + 1);
  EXPECT_EQ(outer.forward(call_on(ones())).value().to_vector(), dropout(ones(), 0.5, stream).to_vector());
}

enum class Drawn { dropped, dropped_path, noise };

/// x [B, T, C], of which a row of B T is drawn for as if it were a sample: the second micro-batch drew what later rows of the first one did.
class Merged : public Module {
 public:
  explicit Merged(Drawn kind) : kind_(kind) {}
  Var forward(const Call& call) const override {
    const Var& x = call.inputs[0];
    const Shape rows{x.dim(0) * x.dim(1), x.dim(2)};
    if (kind_ == Drawn::dropped) return reshape(dropout(reshape(x, rows), 0.5, call.random), x.shape());
    if (kind_ == Drawn::dropped_path) return reshape(drop_path(reshape(x, rows), 0.5, call.random), x.shape());
    return reshape(reshape(x, rows) + Var(call.normal(rows)), x.shape());
  }

 private:
  Drawn kind_;
};

TEST(RandomStreams, OfSamplesThatAreMergedWithAnotherAxisAreRefused) {
  for (const Drawn kind : {Drawn::dropped, Drawn::dropped_path, Drawn::noise}) {
    const auto words = {std::string("node 'merged'"), std::string("samples along the first axis"),
                        std::string("reshape to [samples, ...] before")};
    Graph known, unknown;
    const Value x = known.input("x", {5, 4});
    expect_error<UsageError>([&] { known.add("merged", Merged(kind), x); }, words);
    const Value image = unknown.input("x"), target = unknown.input("target");
    const Value y = unknown.add("y", Linear(4, 4), unknown.add("merged", Merged(kind), image));
    unknown.loss(unknown.add("loss", MeanSquaredError(), {y, target}));
    const Batch batch = batch_of({{"x", randn({6, 5, 4}, 1)}, {"target", randn({6, 5, 4}, 2)}});
    parallel::Trainer trainer(unknown, parallel::plan(unknown, devices("cpu:0"), {.batch = 6, .micro_batches = 2}), SGD({}));
    expect_error<UsageError>([&] { trainer.step(batch); }, words);
  }
  EXPECT_EQ(Merged(Drawn::dropped).forward(call_on(full({2, 3, 4}, 1))).shape(),
            (Shape{2, 3, 4}));  // by hand nobody says how many there are
}

/// One cell of AmoebaNet, twice on the same inputs.
class TwoCells : public Composite {
 public:
  explicit TwoCells(const models::Cell::Options& options) : cell_(add("cell", models::Cell(options))) {}
  Var forward(const Call& call) const override { return concat({run(call, cell_, call.inputs), run(call, cell_, call.inputs)}, 0); }

 private:
  int cell_;
};

TEST(RandomStreams, OfDroppedPathsAreThoseOfTheirCell) {
  const TwoCells module(
      {.genotype = &models::normal_genotype(models::AmoebaNet::d), .last = 4, .before = 4, .filters = 4, .drop_path_keep = 0.5});
  Call call = call_on(full({32, 2, 2, 4}, 1));
  call.inputs.push_back(call.inputs[0]);
  for (const auto& spec : module.parameters()) {
    const Tensor value = empty(spec.shape);
    fill_normal(value, 1, 0.3, random_key(1, spec.name));
    call.parameters.emplace_back(value);
  }
  const Tensor both = module.forward(call).value();
  EXPECT_NE(both.slice(0, 0, 32).to_vector(), both.slice(0, 32, 64).to_vector());
}

}  // namespace
}  // namespace sluice::layers
