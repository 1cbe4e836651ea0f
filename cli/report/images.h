#pragma once
#include <string>
#include <vector>

#include "data/image_dataset.h"
#include "parallel/trainer.h"

namespace sluice::cli {

/// An image with the class that it is of and the one that the model takes it for.
struct JudgedImage {
  data::Image image;
  std::string label, prediction;
};

/// At most `count` images spread over the validation split, judged in mini-batches of `batch`.
std::vector<JudgedImage> judge_images(parallel::Trainer& trainer, const std::shared_ptr<const data::ImageDataset>& dataset, int64_t count,
                                      int64_t batch);

/// HTML of the images with the predictions below them, wrong ones in red. Nothing outside the page is referred to.
std::string image_table(const std::vector<JudgedImage>& images);

}  // namespace sluice::cli
