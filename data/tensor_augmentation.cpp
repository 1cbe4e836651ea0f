#include "data/tensor_augmentation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/distributions.h"
#include "core/error.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "core/ops/flip.h"
#include "core/ops/pad.h"
#include "core/ops/reduction.h"
#include "core/random.h"

namespace sluice::data {

namespace {

/// Four random numbers of one view for one purpose.
class Draws {
 public:
  Draws(const SampleView& view, std::string_view purpose, uint32_t attempt = 0) {
    const uint64_t key = random_key(view.key, purpose);
    words_ = philox({attempt, 0, 0, 0}, {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
  }
  double within(int number, double low, double high) const { return low + (high - low) * uniform_from(words_[number]); }
  bool happens(int number, double probability) const { return uniform_from(words_[number]) < probability; }
  int64_t up_to(int number, int64_t most) const {
    return static_cast<int64_t>(static_cast<uint64_t>(words_[number]) * static_cast<uint64_t>(most + 1) >> 32);
  }

 private:
  std::array<uint32_t, 4> words_;
};

bool is_training(const SampleView& view) { return view.split == Split::train; }

void require_image(const char* function, const Tensor& image) {
  require(image.rank() == 2 || image.rank() == 3, function, ": needs an image [H, W, C] or [H, W], got ", image);
}

void require_probability(const char* function, double probability) {
  require(probability >= 0 && probability <= 1, function, ": needs a probability in [0, 1], got ", probability);
}

Tensor part_of(const Tensor& image, int64_t top, int64_t left, int64_t height, int64_t width) {
  return image.slice(0, top, top + height).slice(1, left, left + width);
}

struct Sides {
  int64_t height, width;
};

/// Those of a random rectangle, which may not fit.
Sides drawn_sides(const Draws& draws, const ErasingOptions& options, const Tensor& image) {
  const double area = draws.within(0, options.least_area, options.most_area) * static_cast<double>(image.dim(0) * image.dim(1));
  const double steepest = std::log(options.steepest), ratio = std::exp(draws.within(1, -steepest, steepest));
  return {std::llround(std::sqrt(area * ratio)), std::llround(std::sqrt(area / ratio))};
}

Tensor erased(const Tensor& image, const SampleView& view, const ErasingOptions& options) {
  for (uint32_t attempt = 0; attempt < 10; ++attempt) {
    const Draws draws(view, "erased rectangle", attempt);
    const auto [height, width] = drawn_sides(draws, options, image);
    if (height < 1 || width < 1 || height > image.dim(0) || width > image.dim(1)) continue;
    const Tensor result = image.clone();
    const Tensor part = part_of(result, draws.up_to(2, image.dim(0) - height), draws.up_to(3, image.dim(1) - width), height, width);
    copy(full(part.shape(), options.fill, part.dtype(), part.device_ptr()), part);
    return result;
  }
  return image;
}

}  // namespace

SampleFunction random_crop(const CropOptions& options) {
  require(options.pad >= 0 && options.height >= 0 && options.width >= 0, "random_crop: needs pad, height and width >= 0, got ", options.pad,
          ", ", options.height, " and ", options.width);
  return [options](const Tensor& image, const SampleView& view) {
    require_image("random_crop", image);
    const int64_t height = options.height ? options.height : image.dim(0), width = options.width ? options.width : image.dim(1);
    const int64_t rows = image.dim(0) + 2 * options.pad - height, columns = image.dim(1) + 2 * options.pad - width;
    require(rows >= 0 && columns >= 0, "random_crop: needs an image of at least ", height, " x ", width, " with ", options.pad,
            " pixels around it, got ", image.shape(), "; pad more, or take a smaller part");
    PadWidths around(static_cast<size_t>(image.rank()), {0, 0});
    around[0] = around[1] = {options.pad, options.pad};
    const Draws draws(view, "crop");
    const int64_t top = is_training(view) ? draws.up_to(0, rows) : rows / 2,
                  left = is_training(view) ? draws.up_to(1, columns) : columns / 2;
    return part_of(pad(image, around, options.fill), top, left, height, width).contiguous();
  };
}

SampleFunction random_flip(double probability) {
  require_probability("random_flip", probability);
  return [probability](const Tensor& image, const SampleView& view) {
    require_image("random_flip", image);
    return is_training(view) && Draws(view, "flip").happens(0, probability) ? sluice::flip(image, {1}) : image;
  };
}

SampleFunction random_erasing(const ErasingOptions& options) {
  require_probability("random_erasing", options.probability);
  require(0 < options.least_area && options.least_area <= options.most_area && options.most_area <= 1,
          "random_erasing: needs areas with 0 < least <= most <= 1, got ", options.least_area, " and ", options.most_area);
  require(options.steepest >= 1 && std::isfinite(options.steepest), "random_erasing: needs a steepest ratio of sides >= 1, got ",
          options.steepest);
  return [options](const Tensor& image, const SampleView& view) {
    require_image("random_erasing", image);
    return is_training(view) && Draws(view, "erasing").happens(0, options.probability) ? erased(image, view, options) : image;
  };
}

SampleFunction random_colour(double brightness, double contrast) {
  for (const double strength : {brightness, contrast})
    require(strength >= 0 && strength <= 1, "random_colour: needs strengths in [0, 1], got ", strength);
  return [brightness, contrast](const Tensor& image, const SampleView& view) {
    require_image("random_colour", image);
    require(is_floating(image.dtype()), "random_colour: needs floats in [0, 1], got ", image, "; cast() and divide it by 255 before");
    if (!is_training(view) || image.elements() == 0) return image;
    const Draws draws(view, "colour");
    const Tensor lit = clamp(mul(image, draws.within(0, 1 - brightness, 1 + brightness)), 0, 1);
    const double factor = draws.within(1, 1 - contrast, 1 + contrast);
    return clamp(add(mul(lit, factor), mul(mean(lit), 1 - factor)), 0, 1);
  };
}

SampleFunction normalisation(const std::vector<double>& mean, const std::vector<double>& deviation) {
  require(!mean.empty() && mean.size() == deviation.size(), "normalisation: needs a mean and a deviation for each channel, got ",
          mean.size(), " and ", deviation.size());
  for (const double of_channel : mean) require(std::isfinite(of_channel), "normalisation: needs finite means, got ", of_channel);
  for (const double of_channel : deviation)
    require(of_channel > 0 && std::isfinite(of_channel), "normalisation: needs finite deviations > 0, got ", of_channel);
  const auto channels = static_cast<int64_t>(mean.size());
  return [=](const Tensor& image, const SampleView&) {
    require(channels == 1 || (image.rank() > 0 && image.dim(-1) == channels), "normalisation: needs ", channels,
            " channels as the last axis, one for each mean, got ", image.shape());
    require(is_floating(image.dtype()) || image.dtype() == DType::u8, "normalisation: needs floats or u8, got ", image,
            "; cast() it before");
    const Tensor x = is_floating(image.dtype()) ? image : cast(image, DType::f32);
    const Shape of_channels = channels == 1 ? Shape{} : Shape{channels};  // one number takes no axis, which a sample may lack
    return div(sub(x, tensor_of(mean, of_channels, x.dtype())), tensor_of(deviation, of_channels, x.dtype()));
  };
}

SampleFunction in_turn(std::vector<SampleFunction> functions) {
  for (const SampleFunction& function : functions) require(static_cast<bool>(function), "in_turn: needs functions, got one that is none");
  return [functions = std::move(functions)](const Tensor& value, const SampleView& view) {
    Tensor result = value;
    for (const SampleFunction& function : functions) result = function(result, view);
    return result;
  };
}

}  // namespace sluice::data
