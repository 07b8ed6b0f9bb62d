//! Entropy-coded tries.
