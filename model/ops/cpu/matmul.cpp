#include "weft/model/ops/cpu/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <new>

#include "weft/base/error.h"
#include "weft/model/ops/cpu/matmul_block.h"
#include "weft/model/ops/cpu/pack.h"

namespace weft::cpu {
namespace {

constexpr std::size_t memory_border = 64;
constexpr std::size_t least_block_columns = 64;
constexpr std::size_t blocks_per_thread =
    4;  // so that a thread that starts late or is disturbed costs little

/// Calls `function` with a value of the type in which products of T are packed at this CPU level.
template <class T, class Function>
decltype(auto) with_packed_type(Function&& function) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (has_bfloat16_kernel()) return function(BFloat16{});
  }
  return function(float{});
}

template <class T>
std::size_t packed_bytes(std::size_t depth, std::size_t columns) {
  return with_packed_type<T>([&](auto packed) {
    using Element = decltype(packed);
    return round_up(packed_elements<Element>(depth, columns) * sizeof(Element), memory_border);
  });
}

void check_memory(std::span<std::byte> memory, std::size_t needed, const char* what) {
  if (memory.size() < needed || reinterpret_cast<std::uintptr_t>(memory.data()) % memory_border != 0) {
    throw Error(fmt::format("{}: {} bytes on a {}-byte border are needed, {} were given at {}", what, needed,
                            memory_border, memory.size(), fmt::ptr(memory.data())));
  }
}

void check(bool fits, const char* what, std::size_t rows, std::size_t out, std::size_t in) {
  if (!fits) throw Error(fmt::format("{}: shapes do not fit rows {}, out {}, in {}", what, rows, out, in));
}

/// c cut into blocks. Any cut gives the same bits; this one keeps operands in cache and threads busy.
struct Cut {
  Cut(std::size_t rows_, std::size_t columns_, std::size_t panel, int threads)
      : rows(rows_), columns(columns_) {
    std::size_t down = divide_up(rows, most_block_rows);
    std::size_t across = divide_up(columns, most_block_columns);
    if (threads > 1) {
      const std::size_t wanted = static_cast<std::size_t>(threads) * blocks_per_thread;
      across = std::max(across, std::min(divide_up(wanted, down), columns / least_block_columns));
    }
    constexpr std::size_t row_multiple = 12;  // divisible by the rows of a fp32 tile at every level
    block_rows = std::min(round_up(divide_up(rows, down), row_multiple), most_block_rows);
    block_columns = std::min(round_up(divide_up(columns, across), panel), most_block_columns);
    blocks_down = divide_up(rows, block_rows);
    blocks_across = divide_up(columns, block_columns);
  }

  std::size_t rows;
  std::size_t columns;
  std::size_t block_rows;
  std::size_t block_columns;
  std::size_t blocks_down;
  std::size_t blocks_across;
};

/// Calls work(block, first row, number of rows, first panel) for every block of c[rows, columns].
template <class Element, class Out, class Work>
void for_blocks(ThreadTeam& team, Matrix<Out> c, Start start, const Work& work) {
  if (c.rows == 0 || c.columns == 0) return;
  const std::size_t panel = kernel<Element>().columns;
  const Cut cut(c.rows, c.columns, panel, team.threads());
  team.parallel_for(cut.blocks_down * cut.blocks_across, [&](std::size_t number) {
    const std::size_t row = number % cut.blocks_down * cut.block_rows;
    const std::size_t column = number / cut.blocks_down * cut.block_columns;
    const std::size_t rows = std::min(cut.block_rows, c.rows - row);
    const std::size_t columns = std::min(cut.block_columns, c.columns - column);
    Block<Element, Out> block(c.row_range(row, rows).column_range(column, columns), start);
    work(block, row, rows, column / panel);
    block.finish();
  });
}

template <class Element>
Panels<Element> panels_at(const std::byte* memory, std::size_t depth, std::size_t first_panel) {
  return {reinterpret_cast<const Element*>(memory), panel_elements<Element>(depth), first_panel};
}

template <class Element, class T>
void pack_operand(ThreadTeam& team, Matrix<const T> b, std::byte* memory) {
  const std::size_t panels = divide_up(b.columns, kernel<Element>().columns);
  team.parallel_for(panels,
                    [&](std::size_t panel) { pack_panel(b, panel, reinterpret_cast<Element*>(memory)); });
}

template <class T, class Out>
void forward(ThreadTeam& team, Matrix<const T> x, const PackedWeight<T>& w, Matrix<Out> y) {
  check(x.columns == w.in() && y.columns == w.out() && x.rows == y.rows, "linear_forward", x.rows, w.out(),
        w.in());
  with_packed_type<T>([&](auto packed) {
    using Element = decltype(packed);
    for_blocks<Element>(
        team, y, Start::zero, [&](auto& block, std::size_t row, std::size_t rows, std::size_t panel) {
          block.add(x.row_range(row, rows), panels_at<Element>(w.forward_panels(), w.in(), panel), team);
        });
  });
}

}  // namespace

template <class T>
std::size_t PackedWeight<T>::bytes(std::size_t out, std::size_t in) {
  return packed_bytes<T>(in, out) + packed_bytes<T>(out, in);
}

template <class T>
PackedWeight<T>::PackedWeight(std::size_t out, std::size_t in, std::span<std::byte> memory)
    : out_(out), in_(in), forward_bytes_(packed_bytes<T>(in, out)), memory_(memory.data()) {
  check_memory(memory, bytes(out, in), "PackedWeight");
}

template <class T>
void PackedWeight<T>::pack(ThreadTeam& team, Matrix<const T> w) {
  check(w.rows == out_ && w.columns == in_, "PackedWeight", 0, out_, in_);
  with_packed_type<T>([&](auto packed) {
    using Element = decltype(packed);
    pack_operand<Element>(team, w.transposed(), memory_);
    pack_operand<Element>(team, w, memory_ + forward_bytes_);
  });
}

template <class T>
void linear_forward(ThreadTeam& team, Matrix<const T> x, const PackedWeight<T>& w, Matrix<T> y) {
  forward(team, x, w, y);
}

void linear_forward(ThreadTeam& team, Matrix<const BFloat16> x, const PackedWeight<BFloat16>& w,
                    Matrix<float> y) {
  forward(team, x, w, y);
}

template <class T>
void linear_backward_input(ThreadTeam& team, std::span<const InputGradientTerm<T>> terms, Matrix<T> dx) {
  if (terms.empty()) throw Error("linear_backward_input: no term");
  for (const InputGradientTerm<T>& term : terms) {
    check(term.w->in() == dx.columns && term.dy.columns == term.w->out() && term.dy.rows == dx.rows,
          "linear_backward_input", dx.rows, term.w->out(), term.w->in());
  }
  with_packed_type<T>([&](auto packed) {
    using Element = decltype(packed);
    for_blocks<Element>(
        team, dx, Start::zero, [&](auto& block, std::size_t row, std::size_t rows, std::size_t panel) {
          for (const InputGradientTerm<T>& term : terms) {
            block.add(term.dy.row_range(row, rows),
                      panels_at<Element>(term.w->backward_panels(), term.w->out(), panel), team);
          }
        });
  });
}

template <class T>
std::size_t backward_weight_workspace(std::size_t rows, [[maybe_unused]] std::size_t out, std::size_t in) {
  return packed_bytes<T>(rows, in);
}

template <class T>
void linear_backward_weight(ThreadTeam& team, Matrix<const T> dy, Matrix<const T> x, Matrix<float> dw,
                            std::span<std::byte> workspace) {
  check(dy.rows == x.rows && dy.columns == dw.rows && x.columns == dw.columns, "linear_backward_weight",
        x.rows, dw.rows, dw.columns);
  check_memory(workspace, backward_weight_workspace<T>(x.rows, dw.rows, dw.columns),
               "linear_backward_weight");
  if (x.rows == 0) return;
  const Matrix<const T> left = dy.transposed();
  with_packed_type<T>([&](auto packed) {
    using Element = decltype(packed);
    pack_operand<Element>(team, x, workspace.data());
    for_blocks<Element>(
        team, dw, Start::value_in_c, [&](auto& block, std::size_t row, std::size_t rows, std::size_t panel) {
          block.add(left.row_range(row, rows), panels_at<Element>(workspace.data(), x.rows, panel), team);
        });
  });
}

template class PackedWeight<float>;
template class PackedWeight<BFloat16>;
template void linear_forward(ThreadTeam&, Matrix<const float>, const PackedWeight<float>&, Matrix<float>);
template void linear_forward(ThreadTeam&, Matrix<const BFloat16>, const PackedWeight<BFloat16>&,
                             Matrix<BFloat16>);
template void linear_backward_input(ThreadTeam&, std::span<const InputGradientTerm<float>>, Matrix<float>);
template void linear_backward_input(ThreadTeam&, std::span<const InputGradientTerm<BFloat16>>,
                                    Matrix<BFloat16>);
template std::size_t backward_weight_workspace<float>(std::size_t, std::size_t, std::size_t);
template std::size_t backward_weight_workspace<BFloat16>(std::size_t, std::size_t, std::size_t);
template void linear_backward_weight(ThreadTeam&, Matrix<const float>, Matrix<const float>, Matrix<float>,
                                     std::span<std::byte>);
template void linear_backward_weight(ThreadTeam&, Matrix<const BFloat16>, Matrix<const BFloat16>,
                                     Matrix<float>, std::span<std::byte>);

}  // namespace weft::cpu
