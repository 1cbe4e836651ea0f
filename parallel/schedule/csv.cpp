#include "parallel/schedule/csv.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "core/error.h"

namespace sluice::parallel {

namespace {

constexpr std::string_view kLetters = "FBIW";  // as in Compute
constexpr int kMostDigits = 7;

/// The parts between separators; what ends with a separator has no part behind it.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return parts;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(blanks);
  return begin == text.npos ? std::string_view() : text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

/// A cell as errors show it: cut and without control characters.
std::string shown(std::string_view cell) {
  std::string text(cell.substr(0, 20));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c == '\x7f'; }, '?');
  return cell.size() > 20 ? text + "..." : text;
}

/// Where an action stands in the table, counted from 1.
struct Place {
  int row = 0, cell = 0;
};

class Reader {
 public:
  Reader(std::string_view text, std::string_view file_name) : file_(file_name) {
    schedule_.name = file_name;
    read(text);
  }

  Schedule take() {
    require(!schedule_.devices.empty(), file_,
            ": needs one row a device with actions as 0F0 (stage, F, B, I or W, micro-batch), got an empty file");
    count_stages_and_micro_batches();
    for (const auto& [action, place] : places_) check_order(action, place);
    for (int stage = 0; stage < schedule_.stage_count(); ++stage) {
      require_all(stage);
      require_ascending(stage);
    }
    return std::move(schedule_);
  }

 private:
  using Key = std::pair<std::pair<int, int>, Compute>;  // stage and micro-batch, kind

  template <class... Parts>
  void require_at(bool ok, Place place, const Parts&... parts) const {
    if (!ok) throw UsageError(join(file_, ": row ", place.row, ", cell ", place.cell, ": ", join(parts...)));
  }

  void read(std::string_view text) {
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    auto rows = split(text, '\n');
    while (!rows.empty() && trimmed(rows.back()).empty()) rows.pop_back();
    for (std::size_t row = 0; row < rows.size(); ++row) {
      schedule_.devices.emplace_back();
      const auto cells = split(rows[row], ',');
      for (std::size_t cell = 0; cell < cells.size(); ++cell)
        if (const auto word = trimmed(cells[cell]); !word.empty()) add(word, {static_cast<int>(row) + 1, static_cast<int>(cell) + 1});
      require(!schedule_.devices.back().empty(), file_, ": row ", row + 1,
              ": needs at least one action, got an empty row; each row is a device: remove it or give it a stage");
    }
  }

  void add(std::string_view word, Place place) {
    const ComputeAction action = parse(word, place);
    const auto [home, is_new] = row_of_stage_.try_emplace(action.stage, place.row);
    require_at(is_new || home->second == place.row, place, "'", shown(word), "' puts stage ", action.stage,
               " on a second device, it is in row ", home->second, " already; a stage runs on one device: move the cell there");
    const auto [other, is_first] = places_.try_emplace({{action.stage, action.micro_batch}, action.kind}, place);
    require_at(is_first, place, "'", shown(word), "' stands in cell ", other->second.cell, " already; remove one of them");
    schedule_.devices.back().push_back(action);
  }

  ComputeAction parse(std::string_view word, Place place) const {
    const std::string_view whole = word;
    const int stage = number(word, whole, place);
    const std::size_t kind = word.empty() ? kLetters.npos : kLetters.find(word.front());
    require_at(kind != kLetters.npos, place, "needs F, B, I or W behind the stage, got '", shown(whole),
               "'; write stage, action and micro-batch as in 0F3, and leave out transfers, which follow from the model");
    word.remove_prefix(1);
    const int micro_batch = number(word, whole, place);
    require_at(word.empty(), place, "needs nothing behind the micro-batch, got '", shown(whole), "'; separate actions by commas");
    return {static_cast<Compute>(kind), stage, micro_batch};
  }

  /// Takes a number from the front of `word`.
  int number(std::string_view& word, std::string_view whole, Place place) const {
    require_at(!word.starts_with('-'), place, "needs numbers from 0 on, got '", shown(whole),
               "'; stages and micro-batches are counted from 0");
    const std::size_t digits = std::min(word.find_first_not_of("0123456789"), word.size());
    require_at(digits > 0, place, "needs an action as 0F3 (stage, F, B, I or W, micro-batch), got '", shown(whole), "'; write it so");
    require_at(digits <= kMostDigits, place, "needs numbers of at most ", kMostDigits, " digits, got '", shown(whole),
               "'; count from 0 without gaps");
    int value = 0;
    std::from_chars(word.data(), word.data() + digits, value);
    word.remove_prefix(digits);
    return value;
  }

  /// Every stage needs an F of every micro-batch, so the greatest numbers tell what is missing; no more of them than cells can be right.
  void count_stages_and_micro_batches() {
    int stages = 0;
    for (const auto& [action, place] : places_) {
      stages = std::max(stages, action.first.first + 1);
      schedule_.micro_batches = std::max(schedule_.micro_batches, action.first.second + 1);
      is_training_ = is_training_ || action.second != Compute::forward;
    }
    for (int stage = 0; stage < stages; ++stage) {
      const auto home = row_of_stage_.find(stage);
      require(home != row_of_stage_.end(), file_, ": needs all stages from 0 to ", stages - 1, ", got none numbered ", stage,
              "; number the stages without gaps");
      schedule_.device_of_stage.push_back(home->second - 1);
    }
  }

  const Place* find(int stage, int micro_batch, Compute kind) const {
    const auto found = places_.find({{stage, micro_batch}, kind});
    return found == places_.end() ? nullptr : &found->second;
  }

  /// What must stand in front of an action of the same stage and micro-batch does.
  void check_order(const Key& key, Place place) const {
    const auto& [stage, micro_batch] = key.first;
    if (key.second == Compute::forward) return;
    const bool is_weight = key.second == Compute::weight_gradient;
    const Place* before = find(stage, micro_batch, is_weight ? Compute::input_gradient : Compute::forward);
    const char letter = kLetters[static_cast<int>(key.second)], wanted = is_weight ? 'I' : 'F';
    require_at(before && before->cell < place.cell, place, "needs ", stage, wanted, micro_batch, " in front of ", stage, letter,
               micro_batch, before ? "; it stands behind: swap them" : ", which is missing: add it");
    if (key.second != Compute::input_gradient) return;
    require_at(find(stage, micro_batch, Compute::weight_gradient), place, "needs ", stage, 'W', micro_batch, " behind ", stage, 'I',
               micro_batch, ": add it, or write ", stage, 'B', micro_batch, " for both");
    require_at(!find(stage, micro_batch, Compute::backward), place, "got both ", stage, 'B', micro_batch, " and ", stage, 'I', micro_batch,
               "; remove B, which is I and W in one");
  }

  void require_all(int stage) const {
    for (int m = 0; m < schedule_.micro_batches; ++m) {
      const bool has_backward = !is_training_ || find(stage, m, Compute::backward) || find(stage, m, Compute::input_gradient);
      const char missing = !find(stage, m, Compute::forward) ? 'F' : has_backward ? 0 : 'B';
      require(!missing, file_, ": row ", row_of_stage_.at(stage), ": needs ", stage, missing, m, ", as stage ", stage,
              " runs all micro-batches from 0 to ", schedule_.micro_batches - 1, "; add the cell");
    }
  }

  /// Gradients of a stage accumulate in the order of the micro-batches, so that every schedule gives the same bits.
  void require_ascending(int stage) const {
    Place last;
    for (int m = 0; is_training_ && m < schedule_.micro_batches; ++m) {
      const Compute kind = find(stage, m, Compute::backward) ? Compute::backward : Compute::weight_gradient;
      const Place place = *find(stage, m, kind);
      require_at(place.cell > last.cell, place, "needs ", stage, kLetters[static_cast<int>(kind)], m,
                 " behind the backward of micro-batch ", m - 1, ", which is in cell ", last.cell,
                 "; gradients of a stage accumulate in the order 0, 1, 2, ...: swap them");
      last = place;
    }
  }

  std::string file_;
  Schedule schedule_;
  std::map<Key, Place> places_;
  std::map<int, int> row_of_stage_;  // counted from 1
  bool is_training_ = false;
};

}  // namespace

std::string schedule_csv(const Schedule& schedule) {
  std::string text;
  for (const auto& order : schedule.devices) {
    for (std::size_t i = 0; i < order.size(); ++i)
      text += join(i == 0 ? "" : ",", order[i].stage, kLetters[static_cast<int>(order[i].kind)], order[i].micro_batch);
    text += '\n';
  }
  return text;
}

Schedule parse_schedule_csv(std::string_view text, std::string_view file_name) { return Reader(text, file_name).take(); }

}  // namespace sluice::parallel
