#include "weft/model/ops/ops.h"

#include "weft/base/error.h"
#include "weft/model/ops/cpu/cpu_ops.h"
#include "weft/tensor/bfloat16.h"

namespace weft {
namespace {

void check_device(DeviceKind kind) {
  if (kind != DeviceKind::cpu)
    throw DeviceError("device " + device_name({kind, 0}) + ": this build computes on the CPU only");
}

}  // namespace

template <class T>
std::unique_ptr<OpSizes<T>> make_op_sizes(const ComputeSettings& settings) {
  check_device(settings.device);
  return std::make_unique<cpu::CpuOpSizes<T>>(settings.threads);
}

template <class T>
std::unique_ptr<Ops<T>> make_ops(Queue& queue, const ComputeSettings& settings) {
  check_device(settings.device);
  if (queue.device().kind != settings.device)
    throw DeviceError("ops were planned for the CPU, the rank computes on " + device_name(queue.device()));
  return std::make_unique<cpu::CpuOps<T>>(cpu::team_of(queue, settings.threads));
}

template std::unique_ptr<OpSizes<float>> make_op_sizes(const ComputeSettings&);
template std::unique_ptr<OpSizes<BFloat16>> make_op_sizes(const ComputeSettings&);
template std::unique_ptr<Ops<float>> make_ops(Queue&, const ComputeSettings&);
template std::unique_ptr<Ops<BFloat16>> make_ops(Queue&, const ComputeSettings&);

}  // namespace weft
