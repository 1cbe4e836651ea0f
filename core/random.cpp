#include "core/random.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>
#include <utility>

#include "core/cpu/cpu.h"
#include "core/distributions.h"
#include "core/integer_range.h"
#include "core/ops/copy.h"

namespace sluice {

uint64_t random_key(uint64_t seed, std::string_view name) { return XXH3_64bits_withSeed(name.data(), name.size(), seed); }

void require_samples_first(const char* what, const Shape& shape, const RandomStream& stream) {
  require(
      stream.samples == 0 || shape[0] == int64_t{stream.samples}, what, ": needs the micro-batch's ", stream.samples,
      " samples along the first axis, got ", shape,
      "; merge that axis with others after it draws, or reshape to [samples, ...] before: else its numbers depend on the micro-batches");
}

namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

/// Calls work(begin, end) for ranges of blocks, of four elements or of one. Of a large tensor on all cores of the machine, whatever threads
/// the device has: it is a model's weights, and no step runs yet.
template <class Work>
void over_blocks(Cpu& own, int64_t blocks, const Work& work) {
  constexpr int64_t kGrain = 8192, kLeastForAllCores = 8 * kGrain;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (blocks < kLeastForAllCores || cores <= own.threads()) return own.parallel_for(blocks, kGrain, work);
  Cpu(cores).parallel_for(blocks, kGrain, work);
}

/// Calls make(tensor in the host's memory) to fill x. That of a GPU is copied there, so that a model starts alike everywhere.
template <class Make>
void made_on_host(const Tensor& x, const Make& make) {
  require(x.is_contiguous(), "random: needs a contiguous tensor, got a strided view of ", x.shape());
  if (x.device().kind() == DeviceKind::cuda) {
    const Tensor host = empty(x.shape(), x.dtype());
    made_on_host(host, make);
    return copy(host, x);
  }
  x.device().count({0, 0, static_cast<double>(x.bytes())}, "random", x.dtype());
  if (x.device().kind() != DeviceKind::meta) make(x);
}

/// Calls make(words) -> four doubles for each block of four elements and stores them, rounded to numbers below `high`.
template <class Make>
void fill_blocks(const Tensor& tensor, uint64_t key, double high, const Make& make) {
  made_on_host(tensor, [&](const Tensor& x) {
    const RandomStream stream{key, 0, 0, 0};
    on_float(x.dtype(), "random", [&]<class T>() {
      T* data = x.data<T>();
      const int64_t count = x.elements();
      over_blocks(x.device().cpu(), (count + 3) / 4, [&](int64_t begin, int64_t end) {
        for (int64_t block = begin; block < end; ++block) {
          const auto values = make(stream.words(block, 0));
          for (int64_t i = 0; i < 4 && 4 * block + i < count; ++i) data[4 * block + i] = rounded_below<T>(values[i], high);
        }
      });
    });
  });
}

/// Errors  UsageError unless the dtype holds the numbers first .. last.
void require_integers(const char* op, DType dtype, int64_t first, int64_t last) {
  require(!is_floating(dtype), op, ": needs i64, i32 or u8, got ", name_of(dtype), "; cast() what it gives");
  const auto [least, largest] = integer_range(dtype);
  require(dtype == DType::i64 || (static_cast<double>(first) >= least && static_cast<double>(last) <= largest), op, ": needs numbers that ",
          name_of(dtype), " holds, got ", first, " to ", last, "; take i64");
}

/// Random number `at` of a stream, in [0, count): words of even and odd number are the halves of 64 bits.
uint64_t whole_number(const RandomStream& stream, int64_t at, uint64_t count) {
  const auto words = stream.words(static_cast<uint64_t>(at / 2), 0);
  const size_t first = static_cast<size_t>(at % 2) * 2;
  return upper_product(uint64_t{words[first + 1]} << 32 | words[first], count);
}

}  // namespace

void fill_normal(const Tensor& x, double mean, double standard_deviation, uint64_t key) {
  fill_blocks(x, key, kUnbounded, [&](const std::array<uint32_t, 4>& words) { return normal_from(words, mean, standard_deviation); });
}

void fill_truncated_normal(const Tensor& x, double mean, double standard_deviation, double cut, uint64_t key) {
  require(cut >= kLeastTruncation, "fill_truncated_normal: needs a cut of at least ", kLeastTruncation, " standard deviations, got ", cut);
  fill_blocks(x, key, kUnbounded, [&](std::array<uint32_t, 4> words) {
    auto values = normal_from(words, 0, 1);
    const auto is_outside = [&](double value) { return std::abs(value) > cut; };
    for (uint32_t round = 0; std::ranges::any_of(values, is_outside); ++round) {
      words = philox(words, {round, 0});
      const auto others = normal_from(words, 0, 1);
      for (size_t i = 0; i < values.size(); ++i)
        if (is_outside(values[i])) values[i] = others[i];
    }
    for (double& value : values) value = mean + standard_deviation * value;
    return values;
  });
}

void fill_uniform(const Tensor& x, double low, double high, uint64_t key) {
  fill_blocks(x, key, low < high ? high : kUnbounded, [&](const std::array<uint32_t, 4>& words) {
    std::array<double, 4> values;
    for (int i = 0; i < 4; ++i) values[i] = low + (high - low) * words[i] * 0x1p-32;
    return values;
  });
}

Tensor rand(const Shape& shape, uint64_t key, DType dtype, const DevicePtr& device) {
  Tensor x = empty(shape, dtype, device);
  fill_uniform(x, 0, 1, key);
  return x;
}

Tensor randn(const Shape& shape, uint64_t key, DType dtype, const DevicePtr& device) {
  Tensor x = empty(shape, dtype, device);
  fill_normal(x, 0, 1, key);
  return x;
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, uint64_t key, DType dtype, const DevicePtr& device) {
  require(low < high, "randint: needs low < high, got ", low, " and ", high);
  require_integers("randint", dtype, low, high - 1);
  Tensor tensor = empty(shape, dtype, device);
  made_on_host(tensor, [&](const Tensor& x) {
    const RandomStream stream{.key = key};
    const uint64_t first = static_cast<uint64_t>(low), count = static_cast<uint64_t>(high) - first;
    on_index(dtype, "randint", [&]<class T>() {
      over_blocks(x.device().cpu(), x.elements(), [&, to = x.data<T>()](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(first + whole_number(stream, i, count));
      });
    });
  });
  return tensor;
}

Tensor randperm(int64_t n, uint64_t key, DType dtype, const DevicePtr& device) {
  require(n >= 0, "randperm: needs n >= 0, got ", n);
  require_integers("randperm", dtype, 0, std::max<int64_t>(0, n - 1));
  Tensor tensor = empty({n}, dtype, device);
  made_on_host(tensor, [&](const Tensor& x) {
    const RandomStream stream{.key = key};
    on_index(dtype, "randperm", [&]<class T>() {
      T* to = x.data<T>();
      std::iota(to, to + n, T(0));
      for (int64_t i = n - 1; i > 0; --i) std::swap(to[i], to[whole_number(stream, i, static_cast<uint64_t>(i) + 1)]);
    });
  });
  return tensor;
}

}  // namespace sluice
