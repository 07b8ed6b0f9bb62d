//! The types that a table records, by their names.
//!
//! Not here: how they are recorded, and compared with those of a view (`typed.rs`).

/// The types of a typed table.
#[derive(Default)]
pub(super) struct Types {
    /// The names of the types, as the next checkpoint writes them; empty for a table of bytes.
    pub names: String,
    /// Whether the file has them. Until then they belong to the thread that holds the checkpoint lock and records them.
    pub is_recorded: bool,
}

impl Types {
    /// The types in the root of a file.
    pub fn recorded(names: String) -> Types {
        Types { is_recorded: !names.is_empty(), names }
    }
}
