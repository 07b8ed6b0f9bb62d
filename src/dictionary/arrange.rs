//! Records in the order that an index gives them inside its chunks or partitions.
