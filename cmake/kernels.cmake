# CPU kernels are compiled once per instruction-set level and dispatched at start (model/ops/cpu/kernels).
