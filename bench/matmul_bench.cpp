// Speed of the products of a linear layer, in GFLOP/s, over the shapes of configs/bench_llama.yaml (hidden
// 512, ffn 1408, vocabulary 8192) and of the tiny model; arguments: rows, out, in, threads. Beside them the
// largest rate that this core reaches with the same instructions ("peak").
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "weft/model/ops/cpu/cpu_level.h"
#include "weft/model/ops/cpu/matmul.h"
#include "weft/model/ops/cpu/matmul_kernel.h"

namespace weft::cpu {
namespace {

/// Memory on a 64-byte border.
template <class T>
class Aligned {
 public:
  explicit Aligned(std::size_t count)
      : memory_(static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 127) / 64 * 64))),
        count_(count) {}
  [[nodiscard]] T* data() const { return memory_.get(); }
  [[nodiscard]] std::span<T> span() const { return {data(), count_}; }

 private:
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };
  std::unique_ptr<T, Free> memory_;
  std::size_t count_;
};

template <class T>
Aligned<T> numbers(std::size_t count) {
  Aligned<T> result(count);
  std::uint32_t state = 1;
  for (T& value : result.span()) {
    state = state * 1664525u + 1013904223u;
    value = from_float<T>(static_cast<float>(state >> 8) / (1u << 24) - 0.5f);
  }
  return result;
}

struct Shape {
  explicit Shape(const benchmark::State& state)
      : rows(static_cast<std::size_t>(state.range(0))),
        out(static_cast<std::size_t>(state.range(1))),
        in(static_cast<std::size_t>(state.range(2))) {}
  std::size_t rows, out, in;
};

void report(benchmark::State& state, double flops) {
  state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel(std::string(name(cpu_level())));
}

template <class T>
struct Layer {
  explicit Layer(const benchmark::State& state)
      : shape(state),
        team(static_cast<int>(state.range(3))),
        w(numbers<T>(shape.out * shape.in)),
        x(numbers<T>(shape.rows * shape.in)),
        y(numbers<T>(shape.rows * shape.out)),
        dw(numbers<float>(shape.out * shape.in)),
        packed_memory(PackedWeight<T>::bytes(shape.out, shape.in)),
        workspace(backward_weight_workspace<T>(shape.rows, shape.out, shape.in)),
        packed(shape.out, shape.in, packed_memory.span()) {
    packed.pack(team, Matrix<const T>(w.data(), shape.out, shape.in));
  }
  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(shape.rows) * static_cast<double>(shape.out) *
           static_cast<double>(shape.in);
  }
  [[nodiscard]] Matrix<T> input() const { return {x.data(), shape.rows, shape.in}; }
  [[nodiscard]] Matrix<T> output() const { return {y.data(), shape.rows, shape.out}; }

  Shape shape;
  ThreadTeam team;
  Aligned<T> w, x, y;
  Aligned<float> dw;
  Aligned<std::byte> packed_memory, workspace;
  PackedWeight<T> packed;
};

template <class T>
void forward(benchmark::State& state) {
  const Layer<T> layer(state);
  auto& team = const_cast<ThreadTeam&>(layer.team);
  for (auto _ : state) linear_forward<T>(team, layer.input(), layer.packed, layer.output());
  report(state, layer.flops());
}

template <class T>
void backward_input(benchmark::State& state) {
  Layer<T> layer(state);
  const InputGradientTerm<T> term{layer.output(), &layer.packed};
  for (auto _ : state) {
    linear_backward_input<T>(layer.team, std::span<const InputGradientTerm<T>>(&term, 1), layer.input());
  }
  report(state, layer.flops());
}

template <class T>
void backward_weight(benchmark::State& state) {
  Layer<T> layer(state);
  const Matrix<float> dw(layer.dw.data(), layer.shape.out, layer.shape.in);
  for (auto _ : state) {
    linear_backward_weight<T>(layer.team, layer.output(), layer.input(), dw, layer.workspace.span());
  }
  report(state, layer.flops());
}

template <class T>
void pack_weight(benchmark::State& state) {
  Layer<T> layer(state);
  for (auto _ : state) layer.packed.pack(layer.team, {layer.w.data(), layer.shape.out, layer.shape.in});
  const auto bytes = static_cast<std::int64_t>(layer.shape.out * layer.shape.in * sizeof(T));
  state.SetBytesProcessed(state.iterations() * bytes);
}

/// The panel function on operands that stay in the first-level cache.
void peak(benchmark::State& state) {
  const Kernel<float>& best = kernel<float>();
  constexpr std::size_t rows = 12, depth = 128;
  const auto a = numbers<float>(rows * depth);
  const auto b = numbers<float>(best.columns * depth);
  const auto c = numbers<float>(rows * best.columns);
  for (auto _ : state)
    best.panel(rows, depth, a.data(), depth, b.data(), b.data(), c.data(), best.columns, false);
  report(state, 2.0 * static_cast<double>(rows * depth * best.columns));
}

void one_thread(benchmark::internal::Benchmark* bench) {  // timed by the thread's own clock
  bench->Unit(benchmark::kMicrosecond);
  bench->Args({512, 512, 512, 1})
      ->Args({512, 1408, 512, 1})
      ->Args({512, 512, 1408, 1})
      ->Args({512, 8192, 512, 1});
  bench->Args({512, 192, 192, 1})->Args({512, 512, 192, 1})->Args({512, 128, 128, 1});
}

void two_threads(benchmark::internal::Benchmark* bench) {  // needs two idle cores
  bench->UseRealTime()->Unit(benchmark::kMicrosecond);
  bench->Args({512, 512, 512, 2})->Args({512, 1408, 512, 2})->Args({512, 192, 192, 2});
}

BENCHMARK(peak);
BENCHMARK(forward<float>)->Apply(one_thread);
BENCHMARK(backward_input<float>)->Apply(one_thread);
BENCHMARK(backward_weight<float>)->Apply(one_thread);
BENCHMARK(forward<BFloat16>)->Apply(one_thread);
BENCHMARK(backward_input<BFloat16>)->Apply(one_thread);
BENCHMARK(backward_weight<BFloat16>)->Apply(one_thread);
BENCHMARK(forward<float>)->Apply(two_threads);
BENCHMARK(backward_weight<float>)->Apply(two_threads);
BENCHMARK(pack_weight<float>)->Args({1, 8192, 512, 1});
BENCHMARK(pack_weight<BFloat16>)->Args({1, 8192, 512, 1});

}  // namespace
}  // namespace weft::cpu
