// Archives, and what a worker is asked.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/json.h"
#include "fuzz/targets.h"
#include "orchestrator/hub/unpack.h"
#include "runner/worker/worker_protocol.h"
#include "seqto/runner.h"

namespace seqto::fuzz {
namespace {

// Models whose outputs are their inputs.
class Echo : public Session {
 public:
  explicit Echo(const Model& model) {
    for (const ValueInfo& input : model.graph.free_inputs()) names_.push_back(input.name);
  }
  std::vector<Tensor> run(std::span<const Tensor> inputs) override { return {inputs.begin(), inputs.end()}; }
  std::vector<int64_t> time(std::span<const Tensor>, int repeats) override {
    return std::vector<int64_t>(static_cast<size_t>(std::clamp(repeats, 0, 100)));
  }
  const std::vector<std::string>& input_names() const override { return names_; }
  const std::vector<std::string>& output_names() const override { return names_; }

 private:
  std::vector<std::string> names_;
};
class EchoRunner : public Runner {
 public:
  std::unique_ptr<Session> load(const Model& model, const SessionOptions&) override {
    return std::make_unique<Echo>(model);
  }
  std::unique_ptr<Session> load_file(const std::string&, const SessionOptions& options) override {
    return load(Model{}, options);
  }
  Model optimized(const Model& model) override { return model; }
  std::string description() const override { return "echo"; }
};

// An open file without a name.
Descriptor memory(std::string_view bytes) {
  Descriptor made(::memfd_create("fuzz", MFD_CLOEXEC));
  if (::write(made.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::abort();
  ::lseek(made.get(), 0, SEEK_SET);
  return made;
}

// No answer is an "internal" error.
void check_answers(const Descriptor& out) {
  std::string text(static_cast<size_t>(::lseek(out.get(), 0, SEEK_END)), ' ');
  if (::pread(out.get(), text.data(), text.size(), 0) < 0) std::abort();
  if (const size_t at = text.find(R"("code":"internal")"); at != text.npos) throw std::logic_error(text.substr(at));
}

}  // namespace

void read_archive(std::string_view bytes) {
  const auto path = file("x.tar.gz", bytes), to = folder() / "unpacked";
  refusing([&] { internal::unpack_tar_gz(path, to, {.max_bytes = 1 << 20, .max_entries = 100}, {}); });
  std::filesystem::remove_all(to);
}

void read_worker(std::string_view bytes) {
  EchoRunner runner;
  for (const bool stream : {false, true}) {
    const Descriptor in = memory(bytes), out = memory("");
    std::filesystem::create_directories(folder() / "blobs");
    serve_worker(runner, in.get(), out.get(), {.blobs = {folder() / "blobs"}, .stream = stream});
    check_answers(out);
  }
  // The same on the side of who asks.
  refusing([&] {
    const auto message = internal::parse_json_if_any(bytes);
    const internal::GetBlob none = [](const std::string&) { return internal::Blob{}; };
    refusing([&] { internal::blob_header(message); });
    refusing([&] { internal::tensors_from_json(message, none); });
    refusing([&] { internal::model_from_json(message, none); });
    refusing([&] { internal::placements_from_json(message); });
    refusing([&] { internal::error_from_json(message); });
  });
}

}  // namespace seqto::fuzz
