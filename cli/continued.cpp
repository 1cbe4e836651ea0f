#include "cli/continued.h"

#include <fmt/core.h>

#include <filesystem>
#include <functional>

#include "cli/build.h"
#include "cli/messages.h"
#include "cli/options.h"
#include "cli/trained_model.h"
#include "parallel/group/packet.h"
#include "parallel/run/agreement.h"

namespace sluice::cli {

namespace {

/// A schedule runs until the end of the training, which then is not free to change.
bool follows_the_end(const Settings& settings) {
  const bool by_rate = settings.text("optimizer.schedule") == "cosine" && settings.integer("optimizer.total_steps") == 0;
  return by_rate || (settings.number("model.drop_path_keep") < 1 && settings.integer("model.drop_path_steps") == 0);
}

using Found = std::optional<parallel::Checkpoint>;

/// The root finds it, and proves for all that it is whole.
Found found_by_root(parallel::Group* ranks, const std::function<Found()>& find) {
  if (!ranks) return find();
  const std::string bytes = parallel::on_root(ranks, [&] {
    parallel::PacketWriter packet;
    const Found found = find();
    packet << found.has_value();
    if (found) {
      const auto& [folder, step, skipped_steps, config, weights_hash, has_averages, parts, files, gpu_choices] = *found;
      packet << std::filesystem::absolute(folder).string() << step << skipped_steps << config << weights_hash << has_averages << parts
             << files << gpu_choices;
    }
    return packet.take();
  });
  parallel::PacketReader packet(bytes);
  if (!packet.read<bool>()) return std::nullopt;
  parallel::Checkpoint found;
  auto& [folder, step, skipped_steps, config, weights_hash, has_averages, parts, files, gpu_choices] = found;
  packet >> folder >> step >> skipped_steps >> config >> weights_hash >> has_averages >> parts >> files >> gpu_choices;
  return found;
}

}  // namespace

Found checkpoint_to_resume(const Arguments& arguments, const Settings& settings, parallel::Group* ranks) {
  return found_by_root(ranks, [&]() -> Found {
    const std::string wanted = arguments.text("--resume");
    if (wanted == "auto") return parallel::find_latest(settings.text("output.dir"), warn);
    if (!wanted.empty()) return parallel::find_checkpoint(wanted, warn);
    return std::nullopt;
  });
}

Found checkpoint_to_begin_with(const Arguments& arguments, parallel::Group* ranks) {
  return found_by_root(ranks, [&]() -> Found {
    const std::string wanted = arguments.text("--init");
    if (wanted.empty()) return std::nullopt;
    return parallel::find_checkpoint(wanted, warn);
  });
}

namespace {

void keep_fold_blocks(const Settings& before, Settings& settings) {
  const int64_t kept = before.integer("pipeline.fold_blocks"), blocks = kept > 0 ? kept : before.integer("pipeline.replicas");
  const int64_t wanted = settings.integer("pipeline.fold_blocks");
  if (wanted > 0 && wanted != blocks)
    warn(fmt::format("pipeline.fold_blocks: the checkpoint was trained with {}, which decides the bits, and goes on with them, not with {}",
                     blocks, wanted));
  settings.set(join("pipeline.fold_blocks=", blocks));
}

/// A number that was chosen by the time or the memory of other devices is not chosen anew. One that is asked for is taken: fewer or smaller
/// devices may need it.
void keep_micro_batches(const Settings& before, Settings& settings) {
  const int64_t kept = before.integer("pipeline.micro_batches"), wanted = settings.integer("pipeline.micro_batches");
  if (settings.is_text("pipeline.micro_batches")) {
    const bool is_for_this_batch = before.integer("train.batch") == settings.integer("train.batch");
    if (is_for_this_batch && !settings.text("pipeline.schedule").ends_with(".csv")) settings.set(join("pipeline.micro_batches=", kept));
  } else if (wanted != kept) {
    warn(fmt::format(
        "pipeline.micro_batches: the checkpoint was trained with {}, now it is {}: sums are rounded otherwise, and batch norms see "
        "other micro-batches; set {} for the bits of an uninterrupted training",
        kept, wanted, kept));
  }
}

}  // namespace

void keep_what_decides_bits(const parallel::Checkpoint& checkpoint, Settings& settings) {
  const Settings before = settings_of(checkpoint, {});
  keep_fold_blocks(before, settings);
  keep_micro_batches(before, settings);
}

std::string tokenizer_to_keep(const parallel::Checkpoint& model, const Settings& settings) {
  const bool same = settings_of(model, {}).text("data.tokenizer") == settings.text("data.tokenizer");
  return same && !is_image_model(settings) ? tokenizer_of(model) : "";
}

std::vector<std::string> answer_lines(const Settings& settings) {
  std::vector<std::string> list;
  for (const Option& option : options()) {
    const bool only_ends_by_losses = option.name == "train.evaluate_every" || option.name == "train.evaluate_batches";
    const bool is_free = !option.decides_answer || option.name.starts_with("pipeline.") || option.name.starts_with("output.") ||
                         (only_ends_by_losses && settings.integer("train.patience") == 0) ||
                         (option.name == "train.steps" && !follows_the_end(settings));
    if (!is_free) list.push_back(fmt::format("{} = {}", option.name, toml_text(settings.value(option.name))));
  }
  return list;
}

namespace {

std::string line_of(const Settings& settings, std::string_view name) {
  return fmt::format("{} = {}", name, toml_text(settings.value(name)));
}

/// Of what stands in `now`, line by line.
std::vector<std::string> changes(const Settings& before, const std::vector<std::string>& now) {
  std::vector<std::string> changes;
  for (const std::string& line : now)
    if (const std::string then = line_of(before, line.substr(0, line.find(" = "))); then != line)
      changes.push_back(fmt::format("the checkpoint was trained with {}, now it is {}", then, line));
  return changes;
}

}  // namespace

std::vector<std::string> changes_of_use(const parallel::Checkpoint& model, const Settings& now) {
  const Settings before = settings_of(model, {});
  if (is_image_model(before) || is_image_model(now)) return {};
  std::vector<std::string> lines;
  for (const char* name : {"model.heads", "model.positions", "model.norm", "model.activation"}) lines.push_back(line_of(now, name));
  return changes(before, lines);
}

std::vector<std::string> changes_of_answer(const Settings& before, const Settings& now) {
  return changes(before, answer_lines(now));  // only the settings of now say whether the end is free
}

}  // namespace sluice::cli
