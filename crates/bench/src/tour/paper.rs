//! The figures of 1991: Seltzer & Yigit, "A New Hashing Package for UNIX", Figures 8a and 8b, and its parameters.
//!
//! Measured there on an HP 9000/370 (33.3 MHz MC68030, 16 MB of memory, HP7959S disk) under 4.3BSD-Reno, in seconds,
//! the average of five runs.

use splitpoint::TableOptions;

/// Keys of the paper's dictionary, each with its number for a value.
pub const WORDS: u64 = 24_474;

/// "In these tests, we use a bucket size of 1024 and a fill factor of 32."
pub fn disk_options() -> TableOptions {
    TableOptions::new().page_bytes(1024).fill_factor(32)
}

/// User, system, elapsed.
pub type Seconds = [f64; 3];

pub struct PaperTest {
    pub name: &'static str,
    /// The paper's package.
    pub hash: Seconds,
    /// The package it was to replace: ndbm on disk, hsearch in memory.
    pub other: Seconds,
}

/// In the order of [`super::suite::OnDisk::tests`], then create/read in memory.
pub const FIGURE_8A: [PaperTest; 6] = [
    PaperTest { name: "create", hash: [6.4, 32.5, 90.4], other: [12.2, 34.7, 99.6] },
    PaperTest { name: "read", hash: [3.4, 1.2, 4.0], other: [6.1, 15.3, 21.2] },
    PaperTest { name: "verify", hash: [3.5, 1.2, 4.0], other: [6.3, 15.3, 21.2] },
    PaperTest { name: "sequential", hash: [2.7, 0.7, 3.0], other: [1.9, 3.9, 5.0] },
    PaperTest { name: "sequential, data", hash: [2.7, 0.7, 3.0], other: [8.2, 4.3, 12.0] },
    PaperTest { name: "in memory", hash: [6.6, 1.1, 7.8], other: [17.2, 0.3, 17.0] },
];

pub const FIGURE_8B: [PaperTest; 6] = [
    PaperTest { name: "create", hash: [0.2, 0.1, 0.0], other: [0.4, 1.0, 3.2] },
    PaperTest { name: "read", hash: [0.1, 0.1, 0.0], other: [0.1, 0.4, 0.0] },
    PaperTest { name: "verify", hash: [0.1, 0.1, 0.0], other: [0.2, 0.3, 0.0] },
    PaperTest { name: "sequential", hash: [0.1, 0.1, 0.0], other: [0.0, 0.1, 0.0] },
    PaperTest { name: "sequential, data", hash: [0.1, 0.1, 0.0], other: [0.1, 0.1, 0.0] },
    PaperTest { name: "in memory", hash: [0.3, 0.0, 0.0], other: [0.4, 0.0, 0.0] },
];
