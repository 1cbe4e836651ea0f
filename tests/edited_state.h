#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/file/file.h"
#include "parallel/checkpoint/layout.h"

namespace sluice {

/// Changes a checkpoint's state.json by `edit(state)` and makes its checksum right again.
template <class Edit>
void edit_state(const std::filesystem::path& checkpoint, const Edit& edit) {
  nlohmann::json state = nlohmann::json::parse(read_file(checkpoint / parallel::checkpoint_layout::kStateFile));
  state.erase("checksum");
  edit(state);
  parallel::checkpoint_layout::write_state_file(checkpoint, std::move(state));
}

}  // namespace sluice
