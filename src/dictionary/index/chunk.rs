//! Chunks of keys, each split by seeds of fixed bit budgets.
