// Training from a program: load a configuration, choose the schedule, train.
#include <cstdio>
#include <exception>

#include <weft/training/trainer.h>

int main(int argc, char** argv) try {
  auto cfg = weft::NanotronConfig::load_from_yaml(argc > 1 ? argv[1] : "configs/config_tiny_llama.yaml");
  cfg.pipeline_parallel.schedule = "afab";  // "afab", "1f1b", ... checked when used
  if (argc > 2) cfg.tokens.train_steps = std::atol(argv[2]);
  weft::Llama model(cfg);  // descriptions: each rank builds only its own stages
  weft::AdamW optimizer(cfg);
  weft::Trainer trainer(cfg, model, optimizer);
  trainer.fit();
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "train_llama: %s\n", e.what());
  return 1;
}
