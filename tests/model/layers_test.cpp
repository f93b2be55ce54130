// Layers compute by ops alone: here they run over memory that nobody may touch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recording_ops.h"
#include "weft/model/layers/decoder_layer.h"
#include "weft/model/layers/language_head.h"

namespace weft::test {
namespace {

using testing::ElementsAre;

LlamaConfig config_with_biases() {
  LlamaConfig config;
  config.vocab_size = 11;
  config.hidden_size = 8;
  config.intermediate_size = 12;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 2;
  config.num_key_value_heads = 1;
  config.head_dim = 4;
  config.attention_bias = true;
  return config;
}

template <class T>
class Layers : public testing::Test {
 protected:
  const LlamaConfig config_ = config_with_biases();
  const std::unique_ptr<OpSizes<T>> sizes_ = make_op_sizes<T>({});
  const RecordingOps<T> ops_{*sizes_};
};
using Types = testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(Layers, Types);

TYPED_TEST(Layers, OfADecoderCallOpsOnly) {
  using T = TypeParam;
  const RecordingOps<T>& ops = this->ops_;
  DecoderLayer<T> layer(this->config_, 0);
  Carver nothing;
  StateCarver no_state;
  layer.lay_out_state(no_state, *this->sizes_);
  const auto kept = layer.lay_out_kept(nothing, 1, 3);
  const auto work = layer.lay_out_work(nothing, 1, 3);
  layer.pack(ops);
  EXPECT_THAT(ops.take(), ElementsAre("pack", "pack", "pack", "pack"));
  layer.compute_kept(ops, 1, 3, {}, nullptr, kept, {});
  EXPECT_THAT(ops.take(), ElementsAre("rms_norm_forward", "linear_forward", "add_bias", "rope_forward",
                                      "attention_forward", "linear_forward", "add_bias",
                                      "add_rms_norm_forward", "linear_forward"));
  layer.compute_output(ops, 3, kept, nullptr, {});
  EXPECT_THAT(ops.take(), ElementsAre("swiglu_forward", "linear_forward", "add"));
  layer.backward_input(ops, 1, 3, {}, nullptr, kept, nullptr, work, nullptr, {});
  EXPECT_THAT(ops.take(),
              ElementsAre("linear_backward_input", "swiglu_backward", "linear_backward_input",
                          "rms_norm_backward", "linear_backward_input", "attention_backward", "copy",
                          "column_sum", "column_sum", "linear_backward_input", "rms_norm_backward"));
  layer.backward_weight(ops, 3, nullptr, work, {});
  EXPECT_THAT(ops.take(),
              ElementsAre("linear_backward_weight", "linear_backward_weight", "linear_backward_weight",
                          "linear_backward_weight", "accumulate", "accumulate", "accumulate", "accumulate"));
}

TYPED_TEST(Layers, OfTheHeadCallOpsOnly) {
  using T = TypeParam;
  const RecordingOps<T>& ops = this->ops_;
  LanguageHead<T> head(this->config_);
  Carver nothing;
  StateCarver no_state;
  head.lay_out_state(no_state, *this->sizes_);
  const auto kept = head.lay_out_kept(nothing, 3);
  const auto work = head.lay_out_work(nothing, 3);
  head.pack(ops);
  EXPECT_THAT(ops.take(), ElementsAre("pack"));
  head.forward(ops, 3, nullptr, nullptr, 1.0, kept, nullptr, {}, {});
  EXPECT_THAT(ops.take(), ElementsAre("rms_norm_forward", "linear_forward_float", "cross_entropy"));
  head.backward_input(ops, 3, nullptr, kept, work, nullptr, {});
  EXPECT_THAT(ops.take(), ElementsAre("linear_backward_input", "rms_norm_backward", "copy"));
  head.backward_weight(ops, 3, work, {});
  EXPECT_THAT(ops.take(), ElementsAre("linear_backward_weight", "accumulate"));
}

}  // namespace
}  // namespace weft::test
