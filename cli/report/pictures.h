#pragma once
#include <string>
#include <vector>

#include "data/image_dataset.h"
#include "parallel/trainer.h"

namespace sluice::cli {

/// A picture with the class that it is of and the one that the model takes it for.
struct JudgedPicture {
  data::Image image;
  std::string label, prediction;
};

/// At most `count` pictures spread over the validation split, judged in mini-batches of `batch`.
std::vector<JudgedPicture> judge_pictures(parallel::Trainer& trainer, const std::shared_ptr<const data::ImageDataset>& dataset,
                                          int64_t count, int64_t batch);

/// HTML of the pictures with the predictions below them, wrong ones in red. Nothing outside the page is referred to.
std::string picture_table(const std::vector<JudgedPicture>& pictures);

}  // namespace sluice::cli
