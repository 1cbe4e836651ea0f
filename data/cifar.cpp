#include "data/cifar.h"

#include "core/error.h"
#include "core/file/file.h"
#include "data/readable_path.h"

namespace sluice::data {

namespace fs = std::filesystem;

namespace {

constexpr size_t kSide = 32, kPlane = kSide * kSide, kChannels = 3;

struct Layout {
  size_t label_bytes, label_at;
  int classes;
  const char* names;  ///< the file of class names
};

Layout layout_of(CifarLabels kind) {
  switch (kind) {
    case CifarLabels::ten:
      return {1, 0, 10, "batches.meta.txt"};
    case CifarLabels::hundred_coarse:
      return {2, 0, 20, "coarse_label_names.txt"};
    case CifarLabels::hundred_fine:
      break;
  }
  return {2, 1, 100, "fine_label_names.txt"};
}

std::vector<std::string> class_names(const fs::path& folder, const Layout& layout) {
  const fs::path path = folder / layout.names;
  if (!exists_readably(path)) return numbered_classes(layout.classes);
  auto names = read_class_names(path);
  require<DataError>(static_cast<int>(names.size()) == layout.classes, path.string(), ": needs ", layout.classes, " class names, got ",
                     names.size());
  return names;
}

ImageSourcePtr open_files(const std::vector<fs::path>& files, CifarLabels kind) {
  std::vector<uint8_t> pixels, labels;
  size_t first_count = 0;
  for (const auto& file : files) {
    const size_t before = labels.size();
    parse_cifar(file.string(), read_file(file), kind, pixels, labels);
    if (before == 0) first_count = labels.size();
    require<DataError>(labels.size() - before == first_count, file.string(), ": has ", labels.size() - before, " images, but ",
                       files[0].filename().string(), " has ", first_count, "; one of the two is cut off: get it again");
  }
  return std::make_shared<ImageArray>(kSide, kSide, kChannels, std::move(pixels), std::move(labels),
                                      class_names(files[0].parent_path(), layout_of(kind)));
}

ImageSplits open_splits(const std::vector<fs::path>& train, const fs::path& test, CifarLabels kind) {
  return {open_files(train, kind), exists_readably(test) ? open_files({test}, kind) : nullptr};
}

/// data_batch_1.bin and on, without a gap; empty where there is none. The data set has five, some of its copies fewer or more.
std::vector<fs::path> training_batches(const fs::path& folder) {
  constexpr size_t kBatches = 5;
  std::vector<fs::path> batches;
  for (size_t i = 1; i <= kBatches || batches.size() + 1 == i; ++i) {
    const fs::path batch = folder / join("data_batch_", i, ".bin");
    if (!exists_readably(batch)) continue;
    require<DataError>(batches.size() + 1 == i, folder.string(), ": lacks data_batch_", batches.size() + 1, ".bin, but has ",
                       batch.filename().string(), "; get the missing file, or move those behind it away");
    batches.push_back(batch);
  }
  return batches;
}

}  // namespace

void parse_cifar(const std::string& name, std::string_view bytes, CifarLabels kind, std::vector<uint8_t>& pixels,
                 std::vector<uint8_t>& labels) {
  const Layout layout = layout_of(kind);
  const size_t record = layout.label_bytes + kChannels * kPlane, count = bytes.size() / record;
  require<DataError>(count > 0 && bytes.size() % record == 0, name, ": needs records of ", record, " bytes, got ", bytes.size(),
                     " bytes: ", count, " records and ", bytes.size() % record, " bytes; get it again");
  pixels.reserve(pixels.size() + count * kChannels * kPlane);
  for (size_t i = 0; i < count; ++i) {
    const size_t at = i * record + layout.label_at;
    labels.push_back(static_cast<uint8_t>(bytes[at]));
    require<DataError>(labels.back() < layout.classes, name, ": byte ", at, " is label ", int{labels.back()}, "; there are classes 0..",
                       layout.classes - 1, "; is it the right file?");
    const char* planes = bytes.data() + i * record + layout.label_bytes;
    for (size_t p = 0; p < kPlane; ++p)
      for (size_t c = 0; c < kChannels; ++c) pixels.push_back(static_cast<uint8_t>(planes[c * kPlane + p]));
  }
}

ImageSplits open_cifar(const std::string& path, bool coarse) {
  const fs::path folder = path;
  const std::vector<fs::path> batches = training_batches(folder);
  if (!batches.empty()) {
    require(!coarse, "data: coarse labels are of CIFAR-100, but ", path, " is CIFAR-10");
    return open_splits(batches, folder / "test_batch.bin", CifarLabels::ten);
  }
  require<DataError>(exists_readably(folder / "train.bin"), path, ": has neither data_batch_1.bin (CIFAR-10) nor train.bin (CIFAR-100)",
                     "; give the folder of the binary version");
  return open_splits({folder / "train.bin"}, folder / "test.bin", coarse ? CifarLabels::hundred_coarse : CifarLabels::hundred_fine);
}

}  // namespace sluice::data
