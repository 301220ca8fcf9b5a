#include "runner/worker/worker_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "runner/worker/blobs.h"
#include "runner/worker/lasting_session.h"
#include "runner/worker/worker_process.h"
#include "runner/worker/worker_protocol.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

using nlohmann::json;

GetBlob from(const BlobStore& store) {
  return [&store](const std::string& name) { return read_blob(store.folders(), name); };
}

// One session's place at a worker, from before it is loaded: who looks for a free worker counts it.
class Seat {
 public:
  explicit Seat(std::shared_ptr<WorkerProcess> worker) : worker_(std::move(worker)) { ++worker_->sessions; }
  Seat(Seat&&) = default;
  Seat& operator=(Seat&&) = delete;
  ~Seat() {
    if (worker_) --worker_->sessions;
  }
  WorkerProcess* operator->() const { return worker_.get(); }

 private:
  std::shared_ptr<WorkerProcess> worker_;
};

class WorkerSession : public Session {
 public:
  WorkerSession(Seat worker, BlobStore& blobs, double timeout_seconds, const json& loaded)
      : worker_(std::move(worker)),
        blobs_(blobs),
        timeout_seconds_(timeout_seconds),
        number_(field<int64_t>(loaded, "session")),
        input_names_(field<std::vector<std::string>>(loaded, "inputs")),
        output_names_(field<std::vector<std::string>>(loaded, "outputs")) {}
  ~WorkerSession() override { worker_->drop(number_); }

  std::vector<Tensor> run(std::span<const Tensor> inputs) override { return run_timed(inputs).outputs; }

  TimedOutputs run_timed(std::span<const Tensor> inputs) override {
    return timed_outputs(ask("ran the model", timeout_seconds_, {{"verb", "run"}}, inputs));
  }

  std::vector<TimedOutputs> run_many(std::span<const std::vector<Tensor>> samples) override {
    if (samples.size() == 1) return {run_timed(samples[0])};
    BlobStore::Lease lease(blobs_);
    json lists = json::array();
    for (const auto& inputs : samples)
      lists.push_back(tensors_to_json(inputs, [&](const Tensor& t) { return lease.put(t); }));
    json reply = exchange("ran the model", timeout_seconds_ * static_cast<double>(samples.size()),
                          {{"verb", "run_many"}, {"samples", std::move(lists)}});
    std::vector<TimedOutputs> results;
    for (const json& result : field<json>(reply, "results")) results.push_back(timed_outputs(result));
    if (results.size() != samples.size())
      throw Error(Code::kInternal,
                  fmt::format("[worker] {} samples were sent; {} came back", samples.size(), results.size()));
    return results;
  }

  std::vector<int64_t> time(std::span<const Tensor> inputs, int repeats) override {
    json request{{"verb", "time"}, {"repeats", repeats}};
    json reply = ask("timed the model", timeout_seconds_ * std::max(1, repeats), std::move(request), inputs);
    return field<std::vector<int64_t>>(reply, "ns");
  }

  void cancel() noexcept override {
    std::lock_guard lock(mutex_);
    if (!exchange_) return;
    exchange_->cancelled = true;
    worker_->wake();
  }
  const std::vector<std::string>& input_names() const override { return input_names_; }
  const std::vector<std::string>& output_names() const override { return output_names_; }

 private:
  TimedOutputs timed_outputs(const json& reply) {
    json outputs = field<json>(reply, "outputs");
    TimedOutputs result{tensors_from_json(outputs, from(blobs_)), field<int64_t>(reply, "ns")};
    // Mapped by now: the bytes live as long as the tensors.
    for (const json& output : outputs)
      if (output.contains("blob")) remove_blob(blobs_.folders(), output["blob"].get<std::string>());
    return result;
  }

  json ask(const char* doing, double timeout_seconds, json request, std::span<const Tensor> inputs) {
    BlobStore::Lease lease(blobs_);
    request["inputs"] = tensors_to_json(inputs, [&](const Tensor& t) { return lease.put(t); });
    return exchange(doing, timeout_seconds, std::move(request));
  }

  json exchange(const char* doing, double timeout_seconds, json request) {
    Exchange exchange{doing, timeout_seconds};
    set_exchange(&exchange);
    struct Reset {
      ~Reset() { session.set_exchange(nullptr); }
      WorkerSession& session;
    } reset{*this};
    request["session"] = number_;
    return worker_->ask(std::move(request), exchange);
  }
  void set_exchange(Exchange* exchange) {
    std::lock_guard lock(mutex_);
    exchange_ = exchange;
  }

  Seat worker_;
  BlobStore& blobs_;
  double timeout_seconds_;
  int64_t number_;
  std::vector<std::string> input_names_, output_names_;
  std::mutex mutex_;
  Exchange* exchange_ = nullptr;  // under way
};

class WorkerRunner : public Runner {
 public:
  enum class Blobs { kShared, kStreamed };
  WorkerRunner(WorkerLaunch launch, Blobs how, const RunnerOptions& options, const Env& env)
      : launch_(std::move(launch)), options_(options), env_(env) {
    if (how == Blobs::kStreamed) launch_.link = &blobs_.folders();
    else
      for (const auto& folder : blobs_.folders())
        launch_.command.insert(launch_.command.end(), {"--blobs", folder.string()});
    workers_.resize(static_cast<size_t>(std::max(1, options.workers)));
    json greeting;
    for_each_worker(env_, [&] { greeting = worker()->greeting(); });
    description_ = field<std::string>(greeting, "runner");
    if (const std::string processor = greeting.value("processor", ""); launch_.link && !processor.empty())
      description_ += " on " + processor;  // another than this machine's
    threads_ = field<int>(greeting, "threads");
  }

  std::unique_ptr<Session> load(const Model& model, const SessionOptions& options) override {
    return lasting([this, model, options] {
      BlobStore::Lease lease(blobs_);
      return load_session({{"model", to_json(model, lease)}}, options);
    });
  }
  std::unique_ptr<Session> load_file(const std::string& path, const SessionOptions& options) override {
    if (launch_.link) return load(load_model(path), options);
    return lasting(
        [this, path, options] { return load_session({{"file", std::filesystem::absolute(path).string()}}, options); });
  }
  Model optimized(const Model& model) override {
    BlobStore::Lease lease(blobs_);
    json reply = ask("optimized the model", {{"verb", "optimize"}, {"model", to_json(model, lease)}});
    Model result = model_from_json(field<json>(reply, "model"), from(blobs_));
    auto remove = [this](const json& tensor) {
      if (tensor.contains("blob")) remove_blob(blobs_.folders(), tensor["blob"].get<std::string>());
    };
    remove(reply["model"]["proto"]);
    for (const json& weight : reply["model"]["weights"]) remove(weight);
    return result;
  }
  std::vector<NodePlacement> placement(const Model& model, std::span<const Tensor> inputs, int runs) override {
    BlobStore::Lease lease(blobs_);
    json request{{"verb", "place"}, {"model", to_json(model, lease)}, {"runs", runs}};
    request["inputs"] = tensors_to_json(inputs, [&](const Tensor& t) { return lease.put(t); });
    return placements_from_json(field<json>(ask("placed the nodes", request), "nodes"));
  }
  // Of the worker with the fewest sessions; ask a runner of one worker.
  ProcessMemory memory() override {
    json reply = ask("told its memory", {{"verb", "memory"}});
    return {field<int64_t>(reply, "resident_bytes"), field<int64_t>(reply, "peak_bytes")};
  }
  std::string description() const override { return description_; }
  int threads() const override { return threads_; }

 private:
  static json to_json(const Model& model, BlobStore::Lease& lease) {
    return model_to_json(model, [&](const Tensor& t) { return lease.put(t); });
  }

  std::unique_ptr<Session> lasting(LastingSession::Open open) {
    if (launch_.link) return open();  // who reaches a worker by a link connects again
    return std::make_unique<LastingSession>(std::move(open), env_);
  }

  json ask(const char* doing, const json& request) {
    json reply;
    for_each_worker(env_, [&] {
      Exchange exchange{doing, options_.load_timeout_seconds};
      reply = worker()->ask(request, exchange);
    });
    return reply;
  }

  std::unique_ptr<Session> load_session(json request, const SessionOptions& options) {
    request["verb"] = "load";
    request["optimization"] = to_string(options.optimization);
    Exchange exchange{"loaded the model", options_.load_timeout_seconds};
    Seat chosen = worker();
    json reply = chosen->ask(std::move(request), exchange);
    return std::make_unique<WorkerSession>(std::move(chosen), blobs_, options_.run_timeout_seconds, reply);
  }

  // The one with the fewest sessions; missing ones are started before any gets a second session.
  Seat worker() {
    std::lock_guard lock(mutex_);
    auto sessions = [](const std::shared_ptr<WorkerProcess>& w) { return w ? 2 * w->sessions : 1; };
    for (auto& w : workers_)
      if (w && !w->alive()) w.reset();
    auto& chosen = *std::min_element(workers_.begin(), workers_.end(),
                                     [&](const auto& a, const auto& b) { return sessions(a) < sessions(b); });
    if (!chosen) chosen = std::make_shared<WorkerProcess>(launch_, options_, env_);
    return Seat(chosen);
  }

  WorkerLaunch launch_;
  RunnerOptions options_;
  Env env_;
  BlobStore blobs_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<WorkerProcess>> workers_;  // null: to be started when it is needed
  std::string description_;
  int threads_ = 1;
};

std::string worker_executable(const RunnerOptions& options) {
  if (!options.worker.empty()) return options.worker;
  if (const char* variable = std::getenv("SEQTO_WORKER"); variable && *variable) return variable;
  return "seqto";
}

}  // namespace

std::unique_ptr<Runner> make_worker_runner(std::vector<std::string> command, const std::string& device,
                                           const RunnerOptions& options, const Env& env) {
  return std::make_unique<WorkerRunner>(WorkerLaunch{std::move(command), device}, WorkerRunner::Blobs::kShared, options,
                                        env);
}

std::unique_ptr<Runner> make_streamed_worker_runner(std::vector<std::string> command, const std::string& device,
                                                    const RunnerOptions& options, const Env& env) {
  return std::make_unique<WorkerRunner>(WorkerLaunch{std::move(command), device}, WorkerRunner::Blobs::kStreamed,
                                        options, env);
}

std::vector<std::string> worker_command(const std::string& device, const RunnerOptions& options) {
  std::vector<std::string> command{worker_executable(options),     "worker", "--device", device, "--threads",
                                   std::to_string(options.threads)};
  if (!options.library.empty()) command.insert(command.end(), {"--runtime-library", options.library});
  for (const auto& [key, value] : options.provider_options)
    command.insert(command.end(), {"--provider-option", key + "=" + value});
  return command;
}

}  // namespace seqto::internal
