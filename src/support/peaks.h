// What this machine reaches at most, measured: the roof of every roofline.
#pragma once

#include <cstddef>

namespace oxyfuel {

/// Floating-point operations a second of fused multiply-adds in float32 that wait for nothing but each other, on
/// `threads` threads at once, in vectors of `vector_bits` (512 or 256). Takes about 20 ms a thread; 0 where the
/// processor lacks such instructions.
double measure_fma_peak(unsigned vector_bits, int threads);

/// Bytes a second that `threads` threads read together from a block of `bytes`, each its part of it, over and over.
/// Beyond four times the last cache this is the memory's. 0 when there is no memory for the block.
double measure_read_bandwidth(size_t bytes, int threads);

} // namespace oxyfuel
